#include "cli/train_setup.h"

#include <unistd.h>

#include <map>

#include "base/console.h"
#include "base/files.h"
#include "cli/model_tokenizer.h"
#include "cli/tokenizer_flags.h"
#include "data/blended_dataset.h"

namespace mtl {

namespace {

/// Problems of the flags, and faults of files that may be thrown as they are.
class Findings {
 public:
  explicit Findings(Flags& flags) : flags_(flags) {}

  void problem(std::string where, std::string what) { flags_.problem(std::move(where), std::move(what)); }
  /// Runs a part of the preparation; returns whether it went well.
  template <class Part>
  bool attempt(std::string where, Part part) {
    try {
      part();
      return true;
    } catch (const Error& error) {
      faults_.emplace_back(std::move(where), error);
      return false;
    }
  }
  /// Everything that is wrong at once. When all of it is the files', the exit code is theirs.
  void finish() {
    if (faults_.empty()) return;
    if (flags_.problem_count() == 0) {
      if (faults_.size() == 1) throw faults_.front().second;
      std::string all = cat(faults_.size(), " problems with the files");
      Exit code = faults_.front().second.code();
      for (const auto& [where, error] : faults_) {
        all += cat("\n  ", where, "  ", what_of(where, error));
        if (error.code() == Exit::bad_data) code = Exit::bad_data;
      }
      throw Error(code, all);
    }
    for (const auto& [where, error] : faults_) problem(where, what_of(where, error));
  }

 private:
  /// What the place says already, its flag or its path, is not said again.
  static std::string what_of(const std::string& where, const Error& error) {
    std::string what = error.what();
    for (const std::string& told : {where + ": ", where.substr(where.rfind(' ') + 1) + ": "}) {
      if (what.starts_with(told)) what.erase(0, told.size());
    }
    return what;
  }
  Flags& flags_;
  std::vector<std::pair<std::string, Error>> faults_;
};

/// A file that a flag names has to be there.
bool is_there(Findings& findings, const char* flag, const std::string& path, const char* remedy) {
  if (path.empty() || file_exists(path)) return true;
  findings.problem(cat(flag, " ", path), cat("there is no such file", remedy));
  return false;
}

bool tokenizer_files_are_there(const TokenizerOptions& tokenizer, Findings& findings) {
  bool vocab = is_there(findings, "--vocab-file", tokenizer.vocab_file, "; mtl-vocab makes one");
  bool merges = is_there(findings, "--merge-file", tokenizer.merge_file, "; it belongs to --vocab-file");
  bool model = is_there(findings, "--tokenizer-model", tokenizer.tokenizer_model, " or folder");
  return vocab && merges && model;
}

/// The sequences that a split has of a data set. A small one has none for 1 of 1000.
void check_share(const SplitSource& source, Split split, const std::string& given, const IndexedDataset& files) {
  SplitRange range = range_of(source.share, files.sequences());
  if (range.begin < range.end) return;
  fail(Exit::bad_data, files.prefix(), ": --split ", given, " leaves none of its ", files.sequences(),
       " sequences for ", kSplitNames[static_cast<std::size_t>(split)],
       "; give more data or another --split (100,0,0 trains on all, without validation)");
}

/// The files of one data set; null, with the reason told, when they are not there or not sound.
std::shared_ptr<const IndexedDataset> check_files(const std::string& flag, const std::string& path, DataFiles& files,
                                                  Findings& findings) {
  std::string prefix = dataset_prefix(path), where = cat(flag.substr(0, flag.find(' ')), " ", prefix);
  bool has_idx = file_exists(prefix + ".idx"), has_bin = file_exists(prefix + ".bin");
  std::shared_ptr<const IndexedDataset> out;
  if (has_idx && has_bin) {
    findings.attempt(where, [&] { out = files.open(prefix); });
    return out;
  }
  bool forgot = file_exists(prefix + "_text_document.idx");
  findings.problem(where,
                   cat("there is no ", has_idx ? "" : prefix + ".idx", has_idx || has_bin ? "" : " nor ",
                       has_bin ? "" : prefix + ".bin",
                       forgot ? "; did you mean " + prefix + "_text_document?" : "; mtl-preprocess makes token files"));
  return out;
}

void check_data(const TrainOptions& options, Findings& findings) {
  if (options.dry_run) return;
  // What is wrong with the flags themselves is told elsewhere.
  SplitSources sources = read_split_sources(options.data.paths, [](const std::string&, const std::string&) {});
  DataFiles files;
  std::map<std::string, std::shared_ptr<const IndexedDataset>> seen;  // by path: each fault is told once
  for (Split split : {Split::train, Split::valid, Split::test}) {
    const auto& source = sources[static_cast<std::size_t>(split)];
    if (!source) continue;
    const bool is_used = split == Split::train || options.batch.eval_iters != 0;
    for (const std::string& path : source->blend.prefixes) {
      auto [at, is_new] = seen.emplace(path, nullptr);
      if (is_new) at->second = check_files(source->flag, path, files, findings);
      const IndexedDataset* data = at->second.get();
      if (data == nullptr || !is_used) continue;
      findings.attempt(cat(source->flag, " ", dataset_prefix(path)),
                       [&] { check_share(*source, split, options.data.paths.split, *data); });
    }
  }
}

/// A folder that will be written: there already, or one that can be made.
bool check_folder(const char* flag, const std::string& path, Findings& findings) {
  if (path.empty()) return true;
  fs::path at = fs::absolute(path).lexically_normal();
  while (!file_exists(at.string()) && at.has_relative_path()) at = at.parent_path();
  std::string problem;
  if (!fs::is_directory(at))
    problem = cat(at.string(), " is not a folder; name another one");
  else if (::access(at.c_str(), W_OK | X_OK) != 0)
    problem = cat("nothing can be written in ", at.string(), "; name another folder");
  if (!problem.empty()) findings.problem(cat(flag, " ", path), problem);
  return problem.empty();
}

bool check_outputs(const TrainOptions& options, Findings& findings) {
  check_folder("--tensorboard-dir", options.logging.tensorboard_dir, findings);
  const std::string& log = options.logging.log_jsonl;
  if (fs::is_directory(log))
    findings.problem("--log-jsonl " + log, "is a folder; name a file");
  else if (!log.empty())
    check_folder("--log-jsonl", fs::absolute(log).parent_path().string(), findings);
  return check_folder("--save", options.checkpoint.save, findings);
}

/// Flags and the loaded model together make the configuration.
void configure(const TrainOptions& options, TrainSetup& setup, bool tokenizer_failed,
               const std::function<void(std::string flag, std::string what)>& report_problem) {
  RunStart& start = setup.start;
  bool complete = true;
  auto report = [&](std::string flag, std::string what) {
    complete = false;
    report_problem(std::move(flag), std::move(what));
  };
  bool tells_documents_apart =
      options.data.eod_mask_loss || options.data.reset_position_ids || options.data.reset_attention_mask;
  if (setup.tokenizer == nullptr && !tokenizer_failed && (tells_documents_apart || !start.source)) {
    report("--vocab-file", start.source
                               ? "and --merge-file are needed to tell documents apart: the model has no tokenizer files"
                               : "and --merge-file are needed, or another --tokenizer-type: the tokenizer decides the "
                                 "size of the vocabulary");
  }
  std::optional<GptConfig> loaded;
  if (start.source) loaded = start.config;
  GptConfig config =
      resolve_config(options, loaded, setup.tokenizer == nullptr ? 0 : setup.tokenizer->vocab_size(), report);
  if (tokenizer_failed && !start.source) config.vocab_size = 1;  // what else is wrong does not depend on it
  if (complete) {
    for (const std::string& problem : config.problems()) report("model", problem);
  }
  start.config = config;
}

}  // namespace

void prepare_training(const TrainOptions& options, Flags& flags, bool is_rank_zero, TrainSetup& setup) {
  Findings findings(flags);
  Console console(flags.program());
  console.quiet = flags.quiet;
  const CheckpointOptions& checkpoint = options.checkpoint;
  check_data(options, findings);
  bool found = check_outputs(options, findings);
  std::string from = checkpoint.load.empty() ? "--save " + checkpoint.save : "--load " + checkpoint.load;
  bool absent =
      !checkpoint.load.empty() && !is_same_path(checkpoint.load, checkpoint.save) && !file_exists(checkpoint.load);
  if (!found && absent) findings.problem(from, "there is no such file or folder");
  found =
      found && is_rank_zero && findings.attempt(from, [&] { setup.start = find_start(options, nullptr, {}, console); });
  if (found && checkpoint.exit_on_missing && !checkpoint.load.empty() && !setup.start.source) {
    findings.problem("--exit-on-missing-checkpoint", cat("there is no checkpoint in --load ", checkpoint.load));
  }

  const TokenizerOptions& named = options.tokenizer;
  bool usable = tokenizer_files_are_there(named, findings);
  if (named.name_one()) {
    std::size_t before = flags.problem_count();
    check_tokenizer_flags(flags, named);
    usable = usable && flags.problem_count() == before;
  }
  usable = usable && is_rank_zero && findings.attempt("tokenizer", [&] {
    setup.tokenizer = choose_tokenizer(named, tokenizer_folder(setup.start));
  });
  if (found) {
    configure(options, setup, !usable,
              [&](std::string flag, std::string what) { findings.problem(std::move(flag), std::move(what)); });
  }
  findings.finish();
}

void complete_setup(const TrainOptions& options, TrainSetup& setup) {
  std::vector<Problem> problems;
  setup.tokenizer = choose_tokenizer(options.tokenizer, tokenizer_folder(setup.start));
  configure(options, setup, false, [&](std::string flag, std::string what) {
    problems.push_back({std::move(flag), std::move(what)});
  });
  if (!problems.empty()) throw UsageError(std::move(problems));
}

}  // namespace mtl
