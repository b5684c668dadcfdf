# What a wheel holds: `cmake --install BUILD --component wheel` fills the package folder of a wheel (pyproject.toml). Its
# folders are those of a bundle (launch/bundle), so that program and Python tools find each other in the same way.

# The torch of the environment that the wheel is installed in lies next to the package folder.
set(_packages "$ORIGIN/../..")
set_target_properties(packtrain_wheel PROPERTIES
  EXCLUDE_FROM_ALL ON
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/wheel"
  OUTPUT_NAME packtrain
  BUILD_RPATH "${LibTorch_RPATH}"
  INSTALL_RPATH "$ORIGIN/../lib;${_packages}/torch/lib;${_packages}/nvidia/nccl/lib;${_packages}/nvidia/cu13/lib")
# DT_RPATH also serves the libraries in lib, and comes before LD_LIBRARY_PATH, as in the torch wheel.
target_link_options(packtrain_wheel PRIVATE -Wl,--disable-new-dtags)
# The commands of an installed wheel name their Python, so that it holds no path of the machine that built it.
target_compile_definitions(packtrain_wheel PRIVATE PACKTRAIN_BUILD_PYTHON="")
install(TARGETS packtrain_wheel RUNTIME DESTINATION bin COMPONENT wheel OPTIONAL)

# Without the C and C++ libraries, and without what comes with the torch wheel or the graphics driver.
install(CODE [==[
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES "$<TARGET_FILE:packtrain_wheel>" RESOLVED_DEPENDENCIES_VAR _libraries
    PRE_EXCLUDE_REGEXES [[^ld-linux]] [[^lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|resolv)\.so]]
                        [[^lib(torch|c10|cud|nccl|nv|cu[a-z]+|gomp)]])
  set(_folder "${CMAKE_INSTALL_PREFIX}/lib")
  file(MAKE_DIRECTORY "${_folder}")
  foreach(_library IN LISTS _libraries)
    get_filename_component(_name "${_library}" NAME)
    get_filename_component(_file "${_library}" REALPATH)
    message(STATUS "Installing: ${_folder}/${_name}")
    file(COPY_FILE "${_file}" "${_folder}/${_name}")
    # Its licence, by the package that it is from. The package manager may know the file without /usr.
    string(REGEX REPLACE "^/usr" "" _other "${_file}")
    execute_process(COMMAND dpkg-query --search "${_file}" "${_other}" OUTPUT_VARIABLE _package ERROR_QUIET)
    string(REGEX REPLACE ":.*" "" _package "${_package}")
    set(_licence "/usr/share/doc/${_package}/copyright")
    if(_package AND EXISTS "${_licence}")
      file(MAKE_DIRECTORY "${_folder}/licenses")
      file(COPY_FILE "${_licence}" "${_folder}/licenses/${_name}.txt")
    else()
      message(WARNING "no licence of ${_file} was found: add it before you publish the wheel")
    endif()
  endforeach()]==] COMPONENT wheel)

install(PROGRAMS "${PROJECT_SOURCE_DIR}/launch/packtrain-run" DESTINATION . COMPONENT wheel)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/launch/python/" DESTINATION python COMPONENT wheel
        FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE PATTERN packtrain EXCLUDE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/configs" "${PROJECT_SOURCE_DIR}/launch/completion"
        DESTINATION . COMPONENT wheel)
