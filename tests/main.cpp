// The entry point of every unit test program. Tests run in tests/, so golden files are at golden/....
#define DOCTEST_CONFIG_IMPLEMENT  // the header may be precompiled without it
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
