#include "train/saver.h"

#include <utility>

#include "comm/rank_outcome.h"

namespace mtl {

Saver::Saver(std::shared_ptr<const SaveDirectory> directory, const TrainOptions& options, RunProgress& run)
    : directory_(std::move(directory)), options_(options), run_(run) {}

void Saver::begin(bool copies, bool persists, StepRunner& steps, RunChoices& choices, const Json& data,
                  const Tokenizer* tokenizer, Communicator& world) {
  steps.stream().synchronize();  // with --optimizer-cpu-offload, the stream may still be writing states to host memory
  run_.record(data, tokenizer);
  if (Json record = choices.record(); !record.is_null()) run_.state.extra.set("choices", std::move(record));
  // One that replaces this iteration's persists as that one did, such as a save that USR1 requested in the validation.
  persists_ = persists || saved_.iteration == run_.state.iteration;
  if (!persists_) run_.state.extra.set(kNonPersistent, true);
  SaveOptions to;
  to.command_line = options_.command_line;
  to.states = !options_.checkpoint.no_save_optim;
  to.kept = kept();
  if (run_.best) to.best = run_.best->iteration;
  if (tokenizer != nullptr) to.add_files = [=](const std::string& folder) { tokenizer->save(folder); };
  std::span<std::byte> copy;
  if (copies) copy = {steps.save_copy().data(), steps.save_copy().bytes()};
  pending_ = directory_->begin(steps.config(), steps.params(), run_.state, to, world, copy);
  saved_ = now();
}

std::string Saver::finish(Communicator& world) {
  const std::unique_ptr<PendingSave> save = std::move(pending_);
  return directory_->finish(*save, world);
}

void Saver::keep(Communicator& world) {
  run_.state.extra.set(kNonPersistent, false);
  directory_->replace_state(run_.state, kept(), world);
  persists_ = true;
}

bool Saver::check_best(Communicator& world) {
  if (!directory_) return true;
  const std::string lost = work_on_first_rank(world, [&] {
    const bool is_there = run_.best && is_sound(directory_->path(), run_.best->iteration);
    directory_->write_best(is_there ? std::optional(run_.best->iteration) : std::nullopt);
    return std::string(run_.best && !is_there ? "lost" : "");
  });
  if (!lost.empty()) run_.best.reset();
  return lost.empty();
}

void Saver::mark_finished(Communicator& world) {
  run_.state.extra.set("finished", true);
  run_.record_best();
  directory_->replace_state(run_.state, kept(), world);
  if (!run_.best) return;
  work_on_first_rank(world, [&] {
    directory_->write_best(run_.best->iteration);
    finish_commit();  // the last validation may have superseded the best checkpoint before
    return std::string();
  });
}

}  // namespace mtl
