// The flag --device: the device on which a program computes (device/device_choice.h).
#pragma once

#include "cli/flags.h"

namespace mtl {

/// Adds --device. `name` holds its default.
void add_device_flag(Flags& flags, std::string& name);

}  // namespace mtl
