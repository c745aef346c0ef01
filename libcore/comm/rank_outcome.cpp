#include "comm/rank_outcome.h"

#include <new>

#include "comm/text_exchange.h"

namespace mtl {

namespace {

constexpr char kDone = '+', kFailed = '-';

/// Calls work() and returns "+" followed by its answer. If work() throws, returns "-CODE WHOmessage", where CODE is the
/// exit code, WHO is `who`, and `message` describes the exception.
Outcome outcome_of(const std::function<std::string()>& work, const std::string& who) {
  auto failed = [&](Exit code, const char* what) { return cat(kFailed, static_cast<int>(code), " ", who, what); };
  try {
    return kDone + work();
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(Exit::failure, "out of memory");
  } catch (const std::exception& error) {
    return failed(Exit::failure, error.what());
  }
}

/// Returns a prefix for this rank's error messages.
std::string name_rank(const Communicator& control) {
  return control.size() > 1 ? cat("on rank ", control.rank(), ": ") : "";
}

std::string answer_of(const Outcome& outcome) {
  if (outcome.at(0) == kDone) return outcome.substr(1);
  std::size_t blank = outcome.find(' ');
  std::int64_t code = parse_int(outcome.substr(1, blank - 1)).value_or(1);
  throw AgreedError(static_cast<Exit>(code), outcome.substr(blank + 1));
}

}  // namespace

std::vector<Outcome> work_on_every_rank(Communicator& control, const std::function<std::string()>& work) {
  return gather_texts(control, outcome_of(work, name_rank(control)));
}

std::vector<std::string> answers_of(const std::vector<Outcome>& outcomes) {
  std::vector<std::string> answers;
  for (const Outcome& outcome : outcomes) answers.push_back(answer_of(outcome));
  return answers;
}

std::string work_on_first_rank(Communicator& control, const std::function<std::string()>& work) {
  Outcome outcome = control.rank() == 0 ? outcome_of(work, "") : "";
  return answer_of(broadcast_text(control, std::move(outcome), 0));
}

void throw_first_error(Communicator& control, const std::exception_ptr& own) {
  answers_of(work_on_every_rank(control, [&] {
    if (own != nullptr) std::rethrow_exception(own);
    return std::string();
  }));
  throw AgreedError(Exit::failure, "a rank failed, but none reports an error");
}

}  // namespace mtl
