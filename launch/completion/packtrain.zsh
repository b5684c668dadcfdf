# Completion of packtrain and packtrain-run in zsh, after compinit: `source launch/completion/packtrain.zsh`.

_packtrain_folder="${0:A:h}"

_packtrain() {
  local -a candidates settings others
  candidates=("${(@f)$("$_packtrain_folder/candidates" "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
  settings=("${(@M)candidates:#*=}")
  others=("${(@)candidates:#*=}")
  others=("${(@)others:#}")
  if (( ${#${(@)settings:#}} )); then compadd -S '' -a settings; fi
  if (( ${#others} )); then compadd -a others; fi
  (( ${#${(@)candidates:#}} )) || _files
}

compdef _packtrain packtrain packtrain-run
