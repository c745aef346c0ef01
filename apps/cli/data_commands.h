// The subcommands of mtl-data. Each takes its own words, the subcommand's name first, and returns the exit code.
#pragma once

namespace mtl {

/// What token files hold: counts, sizes, lengths.
int data_info(int argc, const char* const* argv);
/// The documents themselves.
int data_cat(int argc, const char* const* argv);
/// The samples that a training run would see, in their order.
int data_order(int argc, const char* const* argv);

}  // namespace mtl
