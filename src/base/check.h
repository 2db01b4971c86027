// RONDO_CHECK states what must hold in Rondo's own code; a failure is our defect, never the caller's or the world's.
// It prints file:line and the condition to stderr and aborts; it stays on in release builds except in inner loops,
// which use RONDO_DCHECK.
#pragma once

namespace rondo {
[[noreturn]] void check_failed(const char* file, int line, const char* condition);
}

#define RONDO_CHECK(condition) \
  (__builtin_expect(static_cast<bool>(condition), 1) ? (void)0 : ::rondo::check_failed(__FILE__, __LINE__, #condition))

#ifdef NDEBUG
#define RONDO_DCHECK(condition) ((void)0)
#else
#define RONDO_DCHECK(condition) RONDO_CHECK(condition)
#endif
