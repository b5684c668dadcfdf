// Preloaded: while the file $HUNG_SWITCH exists, what opens or writes a file below $HUNG_FOLDER waits, as on a
// file system whose server is gone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static void wait_for_server(const char* path) {
  const char* folder = getenv("HUNG_FOLDER");
  const char* hung = getenv("HUNG_SWITCH");
  if (folder == NULL || hung == NULL || strncmp(path, folder, strlen(folder)) != 0) return;
  while (access(hung, F_OK) == 0) usleep(10000);
}

static void wait_for_descriptor(int descriptor) {
  char link[64];
  char path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return;
  path[length] = '\0';
  wait_for_server(path);
}

#define OPEN(name)                                                   \
  int name(const char* path, int flags, ...) {                      \
    int (*real)(const char*, int, ...) = dlsym(RTLD_NEXT, #name);   \
    va_list rest;                                                    \
    va_start(rest, flags);                                           \
    int mode = va_arg(rest, int);                                    \
    va_end(rest);                                                    \
    wait_for_server(path);                                           \
    return real(path, flags, mode);                                  \
  }
OPEN(open)
OPEN(open64)

#define PWRITE(name)                                                                  \
  ssize_t name(int descriptor, const void* bytes, size_t size, off_t offset) {       \
    ssize_t (*real)(int, const void*, size_t, off_t) = dlsym(RTLD_NEXT, #name);      \
    wait_for_descriptor(descriptor);                                                  \
    return real(descriptor, bytes, size, offset);                                     \
  }
PWRITE(pwrite)
PWRITE(pwrite64)
