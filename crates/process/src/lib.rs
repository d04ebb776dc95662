//! A Linux process seen from outside: tree, mappings, resident pages, memory, stopping it, calling a function in it.
