#include "device/step_state.h"

#include "device/copy.h"

namespace mtl {

namespace {

/// One of the two parts, as bytes on the device.
template <class Part>
Tensor part_of(StepState* state) {
  return {static_cast<Part*>(state), DType::u8, {sizeof(Part)}};
}

}  // namespace

Tensor StepMemory::loss_sum() const { return {&on_device()->loss_sum, DType::f64, {1}}; }

void StepMemory::send(Stream& stream, const StepInputs& inputs) const {
  copy_from_host(stream, part_of<StepInputs>(on_device()), std::as_bytes(std::span(&inputs, 1)));
}

StepReport StepMemory::receive(Stream& stream) const {
  StepReport report;
  copy_to_host(stream, std::as_writable_bytes(std::span(&report, 1)), part_of<StepReport>(on_device()));
  return report;
}

}  // namespace mtl
