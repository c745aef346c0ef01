#include "device/device_choice.h"

#include "base/str.h"
#include "base/usage_error.h"

namespace mtl {

DeviceChoice choose_device(const std::string& name, bool dry) {
  return name == "cpu" ? DeviceChoice{} : describe_choice(name, find_cuda_device(), dry);
}

DeviceChoice describe_choice(const std::string& name, const CudaDevice& found, bool dry) {
  DeviceChoice out;
  if (found.usable()) {
    out.device = Device::cuda;
    out.text = "computing on " + found.text();
  } else if (name != "auto") {
    if (dry && found.compiled)
      out.device = Device::cuda;
    else
      out.problem = found.why_not + "; to compute without a GPU, use --device cpu";
  } else if (found.has_driver) {  // without a driver there is nothing to report
    out.why_not = found.why_not;
    out.text = cat("computing on the CPU: ", found.why_not);
  }
  return out;
}

Device device_to_use(const std::string& name, Console& console) {
  const DeviceChoice choice = choose_device(name);
  if (!choice.problem.empty()) throw UsageError("--device " + name, choice.problem);
  if (!choice.text.empty()) console.info(choice.text);
  return choice.device;
}

}  // namespace mtl
