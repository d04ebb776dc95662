//! What a process's memory holds: glibc arenas, other allocators, the CRuby heap; the census and the verdict.
