#include "device/step_state.h"

#include "device/copy.h"

namespace mtl {

namespace {

/// Returns StepInputs or StepReport within the state, as a byte tensor on the device.
template <class Part>
Tensor part_of(StepState* state) {
  return {static_cast<Part*>(state), DType::u8, {sizeof(Part)}};
}

}  // namespace

Tensor StepMemory::loss_sums() const { return {on_device()->loss_sums.data(), DType::f64, {2}}; }

StepMemory::StepMemory(Device device)
    : memory_(device, bytes()),
      pinned_(device, host_bytes(device), Space::host),
      sent_{Event(device), Event(device)},
      reported_{Event(device), Event(device)} {}

StepState& StepMemory::on_host(int number) const {
  return pinned_.data() == nullptr ? own_[number] : reinterpret_cast<StepState*>(pinned_.data())[number];
}

void StepMemory::send(Stream& stream, const StepInputs& inputs) {
  input_slot_ = 1 - input_slot_;
  sent_[input_slot_].wait();
  StepInputs& from = on_host(input_slot_);
  from = inputs;
  copy_from_pinned(stream, part_of<StepInputs>(on_device()), std::as_bytes(std::span(&from, 1)));
  sent_[input_slot_].record(stream);
}

int StepMemory::start_report(Stream& stream) {
  report_slot_ = 1 - report_slot_;
  StepReport& to = on_host(report_slot_);
  copy_to_pinned(stream, std::as_writable_bytes(std::span(&to, 1)), part_of<StepReport>(on_device()));
  reported_[report_slot_].record(stream);
  return report_slot_;
}

StepReport StepMemory::read_report(int number) const {
  reported_[number].wait();
  return on_host(number);
}

}  // namespace mtl
