#include "comm/rank_outcome.h"

#include "base/exception_text.h"
#include "comm/text_exchange.h"

namespace mtl {

namespace {

constexpr char kDone = '+', kFailed = '-';

/// Calls work() and returns "+" followed by its answer. If work() throws, returns "-CODE WHOmessage", where CODE is the
/// exit code, WHO is `who`, and `message` describes the exception.
std::string encode_outcome(const std::function<std::string()>& work, const std::string& who) {
  auto failed = [&](Exit code, const std::string& what) {
    return cat(kFailed, static_cast<int>(code), " ", who, what);
  };
  try {
    return kDone + work();
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::exception& error) {
    return failed(Exit::failure, describe_exception(error));
  }
}

/// Returns a prefix for this rank's error messages.
std::string name_rank(const Communicator& control) {
  return control.size() > 1 ? cat("on rank ", control.rank(), ": ") : "";
}

/// Returns the answer, or throws the error, that encode_outcome() encoded.
std::string answer_of(const std::string& outcome) {
  if (outcome.at(0) == kDone) return outcome.substr(1);
  std::size_t blank = outcome.find(' ');
  std::int64_t code = parse_int(outcome.substr(1, blank - 1)).value_or(1);
  throw AgreedError(static_cast<Exit>(code), outcome.substr(blank + 1));
}

}  // namespace

std::vector<std::string> work_on_every_rank(Communicator& control, const std::function<std::string()>& work) {
  return texts_of(gather_texts(control, encode_outcome(work, name_rank(control))), answer_of);
}

std::string work_on_first_rank(Communicator& control, const std::function<std::string()>& work) {
  std::string outcome = control.rank() == 0 ? encode_outcome(work, "") : "";
  return answer_of(broadcast_text(control, std::move(outcome), 0));
}

void throw_first_error(Communicator& control, const std::exception_ptr& own) {
  work_on_every_rank(control, [&] {
    if (own != nullptr) std::rethrow_exception(own);
    return std::string();
  });
  throw AgreedError(Exit::failure, "a rank failed, but no rank reported an error");
}

}  // namespace mtl
