#include "train/stop_request.h"

#include <utility>

#include "base/console.h"
#include "base/files.h"

namespace mtl {

namespace {

constexpr double kSecondsBetweenLooks = 1;

}  // namespace

StopRequest::StopRequest(std::string path, double minutes, double began)
    : path_(std::move(path)), minutes_(minutes), began_(began) {}

bool StopRequest::is_requested() {
  if (!reason_.empty()) return true;
  const double now = now_seconds();
  if (has_stepped_ && minutes_ > 0 && now - began_ > 60 * minutes_) {
    reason_ = cat("--exit-duration-in-mins ", format("%g", minutes_));
  } else if (!path_.empty() && now >= next_look_) {
    next_look_ = now + kSecondsBetweenLooks;
    if (file_exists(path_)) reason_ = cat("--kill-switch-path ", path_);
  }
  return !reason_.empty();
}

}  // namespace mtl
