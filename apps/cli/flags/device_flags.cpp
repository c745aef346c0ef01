#include "cli/flags/device_flags.h"

namespace mtl {

void add_device_flag(Flags& flags, std::string& name) {
  flags.add("--device", &name, "NAME", "device to compute on (auto: a GPU if one can be used)",
            one_of({"auto", "cpu", "cuda"}));
}

}  // namespace mtl
