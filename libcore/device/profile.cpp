#include "device/profile.h"

#include "base/error.h"
#include "base/str.h"
#include "device/cuda_profile.h"

namespace mtl {

std::string ProfileEntry::title() const { return number < 0 ? name : cat(name, " ", number); }

std::string short_kernel_name(std::string demangled) {
  const std::string anonymous = "(anonymous namespace)::";
  for (std::size_t at; (at = demangled.find(anonymous)) != std::string::npos;) demangled.erase(at, anonymous.size());
  if (starts_with(demangled, "void ")) demangled.erase(0, 5);
  int depth = 0;  // template argument depth; parentheses in template arguments are casts
  for (std::size_t i = 0; i < demangled.size(); ++i) {
    if (demangled[i] == '<') ++depth;
    if (demangled[i] == '>') --depth;
    if (demangled[i] == '(' && depth == 0) return demangled.substr(0, i);
  }
  return demangled;
}

int Profile::begin(Stream& stream, ProfileEntry entry) {
  const int index = static_cast<int>(entries_.size());
  entry.parent = open_;
  if (index == 0) counted_ = stream.counters();  // exclude counts from before the profile
  if (entry.kind == ProfileKind::op) {
    const Counters now = stream.counters();
    // If the counters were reset in the meantime, they restarted from zero.
    const Counters before = now.flops < counted_.flops || now.bytes < counted_.bytes ? Counters{} : counted_;
    entry.work = {now.flops - before.flops, now.bytes - before.bytes};
    counted_ = now;
  }
  if (device_ == Device::cuda) cuda::begin_range(entry.title(), entry.kind == ProfileKind::op ? index : -1);
  entries_.push_back(std::move(entry));
  open_ = index;
  if (device_ == Device::meta) return index;
  begins_.emplace_back(device_, Event::Kind::time);
  ends_.emplace_back(device_, Event::Kind::time);
  begins_.back().record(stream);
  return index;
}

void Profile::end(Stream& stream, int index) noexcept {
  open_ = entries_[index].parent;
  try {
    if (device_ != Device::meta) ends_[index].record(stream);
    if (device_ == Device::cuda) cuda::end_range(entries_[index].kind == ProfileKind::op);
  } catch (...) {
    if (failure_ == nullptr) failure_ = std::current_exception();
  }
}

void Profile::finish() {
  require(open_ < 0, "a profile ends inside of ", open_ < 0 ? std::string() : entries_[open_].title());
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  if (device_ == Device::meta || entries_.empty()) return;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    ends_[i].wait();
    entries_[i].begin_ms = begins_[i].milliseconds_since(begins_[0]);
    entries_[i].end_ms = ends_[i].milliseconds_since(begins_[0]);
  }
}

}  // namespace mtl
