// Preloaded into linux.uml, so that it runs on processors with AMX.
//
// User Mode Linux 6.1 keeps 2,696 bytes of a task's extended state, AVX-512's included, and writes
// them back with ptrace(PTRACE_SETREGSET, NT_X86_XSTATE). A processor with AMX has 11,008, and the
// host refuses to take less than all: the guest dies in put_fp_registers() before init runs. Here
// what it writes is laid over the whole state as it is. Only tiles are beyond, and those a guest's
// program cannot ask for.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

typedef long (*Ptrace)(enum __ptrace_request, ...);

static char whole[64 << 10];  // the guest's kernel is one thread and has small stacks

static long Restore(Ptrace real, int pid, void* type, const struct iovec* kept) {
  struct iovec all = {whole, sizeof(whole)};
  const long result = real(PTRACE_GETREGSET, pid, type, &all);
  if (result != 0) return result;
  if (kept->iov_len > all.iov_len) {
    errno = EFAULT;
    return -1;
  }
  memcpy(whole, kept->iov_base, kept->iov_len);
  return real(PTRACE_SETREGSET, pid, type, &all);
}

long ptrace(enum __ptrace_request request, ...) {
  static Ptrace real;
  if (real == NULL) real = (Ptrace)dlsym(RTLD_NEXT, "ptrace");
  va_list arguments;
  va_start(arguments, request);
  const int pid = va_arg(arguments, int);
  void* const address = va_arg(arguments, void*);
  void* const data = va_arg(arguments, void*);
  va_end(arguments);
  if (request == PTRACE_SETREGSET && (uintptr_t)address == NT_X86_XSTATE) {
    return Restore(real, pid, address, data);
  }
  return real(request, pid, address, data);
}
