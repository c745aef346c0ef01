#include "train/saver.h"

#include <utility>

namespace mtl {

Saver::Saver(std::shared_ptr<const SaveDirectory> directory, const TrainOptions& options, RunProgress& run)
    : directory_(std::move(directory)), options_(options), run_(run) {}

std::string Saver::save(StepRunner& steps, RunChoices& choices, const Json& data, const Tokenizer* tokenizer,
                        Communicator& world) {
  steps.stream().synchronize();  // with --optimizer-cpu-offload, the stream may still be writing states to host memory
  run_.record(data, tokenizer);
  if (Json record = choices.record(); !record.is_null()) run_.state.extra.set("choices", std::move(record));
  SaveOptions to;
  to.command_line = options_.command_line;
  to.keep_last = options_.checkpoint.keep_last;
  if (tokenizer != nullptr) to.add_files = [&](const std::string& folder) { tokenizer->save(folder); };
  std::string path = directory_->save(steps.config(), steps.params(), run_.state, to, world);
  saved_ = now();
  return path;
}

void Saver::mark_finished(Communicator& world) {
  run_.state.extra.set("finished", true);
  directory_->replace_state(run_.state, options_.checkpoint.keep_last, world);
}

}  // namespace mtl
