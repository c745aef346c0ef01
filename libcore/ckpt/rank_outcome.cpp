#include "ckpt/rank_outcome.h"

#include "comm/text_exchange.h"

namespace mtl {

namespace {

constexpr char kDone = '+', kFailed = '-';

/// "+answer", or "-74 WHO message".
Outcome outcome_of(const std::function<std::string()>& work, const std::string& who) {
  auto failed = [&](Exit code, const char* what) { return cat(kFailed, static_cast<int>(code), " ", who, what); };
  try {
    return kDone + work();
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::exception& error) {
    return failed(Exit::failure, error.what());
  }
}

std::string answer_of(const Outcome& outcome) {
  if (outcome.at(0) == kDone) return outcome.substr(1);
  std::size_t blank = outcome.find(' ');
  std::int64_t code = parse_int(outcome.substr(1, blank - 1)).value_or(1);
  throw Error(static_cast<Exit>(code), outcome.substr(blank + 1));
}

}  // namespace

std::vector<Outcome> work_on_every_rank(Communicator& world, Stream& stream, const std::function<std::string()>& work) {
  std::string who = world.size() > 1 ? cat("on rank ", world.rank(), ": ") : "";
  return gather_texts(world, stream, outcome_of(work, who));
}

std::vector<std::string> answers_of(const std::vector<Outcome>& outcomes) {
  std::vector<std::string> answers;
  for (const Outcome& outcome : outcomes) answers.push_back(answer_of(outcome));
  return answers;
}

std::string work_on_first_rank(Communicator& world, Stream& stream, const std::function<std::string()>& work) {
  Outcome outcome = world.rank() == 0 ? outcome_of(work, "") : "";
  return answer_of(broadcast_text(world, stream, std::move(outcome), 0));
}

}  // namespace mtl
