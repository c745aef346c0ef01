#include "cli/train/setup.h"

#include "base/files.h"
#include "base/hub_cache.h"
#include "cli/flags/model_tokenizer.h"
#include "cli/flags/tokenizer_flags.h"

namespace mtl {

void prepare_training(TrainOptions& options, Flags& flags, bool is_rank_zero, TrainSetup& setup) {
  Findings findings;
  Console console(flags.program());
  console.quiet = flags.quiet;
  const CheckpointOptions& checkpoint = options.checkpoint;
  if (is_rank_zero || !options.dry_run) check_data(options, findings, console);
  bool found = check_outputs(options, is_rank_zero, findings);
  std::string from = checkpoint.load.empty() ? "--save " + checkpoint.save : "--load " + checkpoint.load;
  bool absent = !checkpoint.load.empty() && !is_same_path(checkpoint.load, checkpoint.save) &&
                !file_exists(resolve_hub_name(checkpoint.load));
  if (!found && absent) findings.missing(from, describe_missing_path(checkpoint.load));
  found =
      found && is_rank_zero && findings.attempt(from, [&] { setup.start = find_start(options, nullptr, {}, console); });
  if (found && checkpoint.exit_on_missing && !checkpoint.load.empty() && !setup.start.source) {
    findings.problem("--exit-on-missing-checkpoint", cat("is set, and --load ", checkpoint.load,
                                                         " contains no checkpoint; choose another --load folder"));
  }

  const TokenizerOptions& named = options.tokenizer;
  bool usable = check_tokenizer_files(named, findings);
  if (named.names_tokenizer()) {
    std::size_t before = flags.problem_count();
    check_tokenizer_flags(flags, named);
    usable = usable && flags.problem_count() == before;
  }
  usable = usable && is_rank_zero &&
           findings.attempt("tokenizer", [&] { setup.tokenizer = choose_tokenizer(named, setup.start.point.folder); });
  if (found) {
    trim_vocabulary(setup.start, setup.tokenizer ? setup.tokenizer->vocab_size() : 0, console);
    configure(options, setup, !usable, std::bind_front(&Findings::problem, &findings));
  }
  if (is_rank_zero) check_fused_attention(options, std::bind_front(&Flags::problem, &flags));
  for (Problem& problem : findings.finish(flags.problem_count() == 0)) flags.problem(problem.where, problem.what);
}

void complete_setup(TrainOptions& options, TrainSetup& setup) {
  Findings findings;
  Console silent("", true);
  setup.tokenizer = choose_tokenizer(options.tokenizer, setup.start.point.folder);
  trim_vocabulary(setup.start, setup.tokenizer ? setup.tokenizer->vocab_size() : 0, silent);
  configure(options, setup, false, std::bind_front(&Findings::problem, &findings));
  std::vector<Problem> problems = findings.finish(true);
  if (!problems.empty()) throw UsageError(std::move(problems));
}

}  // namespace mtl
