// The entry point for every unit test program. Tests run in the folder tests/, so golden files are in golden/.
#define DOCTEST_CONFIG_IMPLEMENT  // a precompiled header may include doctest without it
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
