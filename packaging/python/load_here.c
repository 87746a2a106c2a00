/*
 * Loads a library by its bare name from the working directory, which is this object's search path (-rpath .).
 * The dynamic linker records such a name, and later takes the library for any other that is asked for by it.
 * Compile it with -fno-optimize-sibling-calls: dlopen finds its caller by the return address.
 */
#include <dlfcn.h>

void *libibverbs_rs_load_here(const char *name);

void *libibverbs_rs_load_here(const char *name)
{
	return dlopen(name, RTLD_NOW | RTLD_GLOBAL);
}
