#include "train/setup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/count_of.h"
#include "base/enum_index.h"
#include "base/files.h"
#include "base/hub_cache.h"
#include "base/printable.h"
#include "data/blended_dataset.h"
#include "data/token_formats.h"
#include "train/log_rewind.h"
#include "train/run_settings.h"

namespace mtl {

namespace {

/// Reports a file that a flag names but that does not exist.
bool check_exists(Findings& findings, const char* flag, const std::string& path, const char* remedy) {
  if (path.empty() || file_exists(path)) return true;
  findings.missing(cat(flag, " ", path), cat("does not exist", remedy));
  return false;
}

/// Says that a split gets no sequences from a data set, or returns "". For example, 1/1000 of a small data set can be
/// rounded down to none.
std::string describe_shortage(const SplitSource& source, Split split, const std::string& given,
                              const IndexedDataset& files) {
  const SplitRange range = range_of(source.share, files.sequences());
  if (range.begin < range.end) return "";
  return cat("--split ", given, " leaves no sequences for ", kSplitNames[enum_index(split)],
             ", because the data set has only ", count_of(files.sequences(), "sequence"),
             "; use more data, or another --split (100,0,0 trains on all, without validation)");
}

/// Explains a word of --data-path that is no path, or returns "".
std::string explain_word(const std::string& word) {
  if (parse_float(word)) return "is a weight without a data set; a weight comes before its data set: 0.5 web 0.5 books";
  if (word.find(',') != std::string::npos) return "does not exist; blanks, not commas, separate data sets";
  return "";
}

/// Explains why a data set has no token files. Returns nullopt if it has them.
std::optional<MissingIndex> explain_missing_files(const std::string& path, const std::string& prefix) {
  const bool has_idx = file_exists(prefix + ".idx"), has_bin = file_exists(prefix + ".bin");
  if (has_idx && has_bin) return std::nullopt;
  if (!has_idx) {
    if (auto missing = explain_missing_index(path)) return missing;
  }
  if (const std::string why = explain_word(path); !has_idx && !has_bin && !why.empty())
    return MissingIndex{Exit::usage, why};
  const bool has_suffix = file_exists(prefix + "_text_document.idx");
  return MissingIndex{Exit::io, cat("there is no ", has_idx ? "" : prefix + ".idx", has_idx || has_bin ? "" : " or ",
                                    has_bin ? "" : prefix + ".bin",
                                    has_suffix ? "; did you mean " + prefix + "_text_document?"
                                               : "; make token files with mtl-preprocess")};
}

/// Opens one data set's files. If a file is missing or damaged, reports it and returns null. To a dry run, which may
/// plan for another machine, a missing file is a warning.
std::shared_ptr<const IndexedDataset> check_files(const std::string& flag, const std::string& path, bool dry_run,
                                                  DataFiles& files, Findings& findings, Console& console) {
  const std::string prefix = dataset_prefix(path), where = cat(flag.substr(0, flag.find(' ')), " ", prefix);
  const std::optional<MissingIndex> missing = explain_missing_files(path, prefix);
  std::shared_ptr<const IndexedDataset> out;
  if (!missing)
    findings.attempt(where, [&] { out = files.open(prefix); });
  else if (missing->code == Exit::usage)
    findings.problem(where, missing->message);
  else if (dry_run && missing->code == Exit::io)
    console.warn(cat(where, " was not checked: ", missing->message));
  else
    findings.fault(where, Error(missing->code, where, missing->message));
  return out;
}

/// Reports a folder that can neither be written to nor created. `where` is the flag with its value.
bool check_folder(const std::string& where, const std::string& path, Findings& findings) {
  if (path.empty()) return true;
  const std::string at = nearest_existing(path);
  std::string problem;
  if (!is_directory(at))
    problem = cat("cannot be created, because ", at, " is not a folder; choose another folder");
  else if (::access(at.c_str(), W_OK | X_OK) != 0)
    problem = cat("needs write access to ", at, "; choose another folder, or change its permissions");
  if (!problem.empty()) findings.problem(where, problem);
  return problem.empty();
}

void check_kill_switch(const std::string& path, Findings& findings) {
  const std::string where = "--kill-switch-path " + path;
  if (path.empty()) return;
  if (is_directory(path))
    return findings.problem(where, "is a folder, which would end the run at once; add a file name");
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 && errno != ENOENT)
    findings.problem(where, cat("can never be found: ", std::strerror(errno), "; choose another file name"));
}

/// Reports an existing file that is not a training log, such as an input of this run or another program's file.
void check_log(const std::string& path, Findings& findings) {
  if (!is_regular_file(path)) return;  // writing the first line reports an error
  findings.attempt("--log-jsonl " + path, [&] { rewind_log(read_file(path), {}, path); });
}

/// Reports an attempt to resume in a different precision. Checkpoints made by mtl-convert record neither a precision
/// nor a seed.
void check_resumed_precision(const PrecisionOptions& precision, const RunStart& start, const ReportProblem& report) {
  const Json* record = start.state->extra.find("precision");
  if (record == nullptr && start.state->extra.find("seed") == nullptr) return;
  const std::string difference = precision_difference(record, precision_of(precision));
  if (difference.empty()) return;
  const std::vector<std::string> flags = precision_flags(precision);
  report(join(flags, ", "),
         cat(flags.size() == 1 ? "is" : "are", " not the precision of ", start.point.folder, " (", difference,
             "); use that run's flags, or start from its weights with --finetune and another --save folder"));
}

/// Describes the scaling of rotary frequencies, except for longrope's lists of factors.
std::string scaling_text(const RotaryOptions& rotary) {
  using Scaling = RotaryOptions::Scaling;
  const std::string original = cat(" from ", rotary.original_positions, " positions");
  const std::string attention = cat(", attention factor ", rotary.attention_factor);
  switch (rotary.scaling) {
    case Scaling::none:
      return "none";
    case Scaling::linear:
      return cat("linear by ", rotary.factor);
    case Scaling::dynamic:
      return cat("dynamic by up to ", rotary.factor);
    case Scaling::longrope:
      return cat("longrope", original, attention);
    case Scaling::llama3:
      return cat("llama3 by ", rotary.factor, original, ", low and high frequency factors ", rotary.low_freq_factor,
                 " and ", rotary.high_freq_factor);
    case Scaling::yarn:
      break;
  }
  return cat("yarn by ", rotary.factor, original, attention, ", betas ", rotary.beta_fast, " and ", rotary.beta_slow,
             rotary.round_pairs ? "" : ", not rounded");
}

/// Adds to start.changes how the run extends a loaded model with rotary positions, and its vocabulary.
void add_extension(const GptConfig& loaded, const GptConfig& config, StartPoint& start) {
  const auto settings = [](const GptConfig& from) {
    return Json::object({{"--max-position-embeddings", from.max_positions},
                         {"--rotary-base", from.rotary.base},
                         {"rotary scaling", scaling_text(from.rotary)},
                         {"tokens", from.vocab_size}});
  };
  const std::string changes = differences_of(settings(loaded), settings(config));
  if (!changes.empty()) start.changes.push_back(cat(start.folder, " continues with ", changes));
  const RotaryOptions &before = loaded.rotary, &after = config.rotary;
  if (before.short_factors != after.short_factors || before.long_factors != after.long_factors)
    start.changes.push_back(cat(start.folder, " continues with other longrope factors"));
}

/// Reports the flags that act at the ends of documents, if the model cannot have the token that ends them. Throws
/// Error(bad_data) if the tokenizer has no such token.
void check_document_ends(const DataOptions& data, const Tokenizer& tokenizer, std::int64_t vocab_size,
                         const ReportProblem& report) {
  std::vector<std::string> flags;
  for (const auto& [flag, is_set] :
       {std::pair("--mock-data", data.mock), std::pair("--eod-mask-loss", data.eod_mask_loss),
        std::pair("--reset-position-ids", data.reset_position_ids),
        std::pair("--reset-attention-mask", data.reset_attention_mask)}) {
    if (is_set) flags.emplace_back(flag);
  }
  if (flags.empty() || tokenizer.eod() < vocab_size) return;
  report(join(flags, ", "),
         cat("cannot act, because the tokenizer's end-of-document token, ", tokenizer.eod(),
             ", is not in the model's vocabulary of ", with_commas(vocab_size), "; use the tokenizer of the model"));
}

/// Reports --new-token-rows in a run that needs optimizer moments for the new tokens, and says if there are none.
void check_new_tokens(const TrainOptions& options, const GptConfig& loaded, const GptConfig& config, RunStart& start,
                      const ReportProblem& report) {
  if (!options.new_token_rows) return;
  const std::string flag = cat("--new-token-rows ", *options.new_token_rows);
  if (config.vocab_size == loaded.vocab_size) {
    if (!start.point.is_own)
      start.point.changes.push_back(cat(flag, " adds nothing to ", start.point.folder, ", which has ",
                                        with_commas(loaded.vocab_size), " tokens, as many as the tokenizer or more"));
  } else if (start.state && start.point.is_own) {
    report(flag, cat("cannot extend a run that resumes ", start.point.folder,
                     "; start another with --load, --finetune and another --save folder"));
  } else if (start.state && !options.checkpoint.no_load_optim) {
    report(flag, cat("cannot resume ", start.point.folder, ", whose optimizer has no moments for new tokens; add ",
                     "--finetune to start at iteration 0 from its weights, or --no-load-optim to continue with moments "
                     "of zero"));
  }
}

}  // namespace

std::vector<Problem> Findings::finish(bool flags_are_valid) const {
  if (!faults_.empty() && problems_.empty() && flags_are_valid) {
    if (faults_.size() == 1) throw Error(faults_.front().second);
    std::string all = cat(faults_.size(), " problems with the files");
    Exit code = faults_.front().second.code();
    for (const auto& [where, error] : faults_) {
      all += cat("\n  ", where, "  ", error.message_at(where));
      if (error.code() == Exit::bad_data) code = Exit::bad_data;
    }
    throw Error(code, all);
  }
  std::vector<Problem> all = problems_;
  for (const auto& [where, error] : faults_) all.push_back({where, error.message_at(where)});
  return all;
}

void check_data_source(const TrainOptions& options, const ReportProblem& report) {
  const DataPathOptions& paths = options.data.paths;
  if (options.data.mock && !paths.is_absent())
    report("--mock-data",
           "generates tokens instead of reading data; use either --mock-data or the flags that name data");
  if (options.data.mock && options.batch.full_validation)
    report("--full-validation", "needs a validation set, but --mock-data has no end; use --eval-iters");
  if (options.data.mock || options.dry_run) return;
  if (paths.is_absent())
    report("--data-path",
           "is required; choose token files made by mtl-preprocess, or add --mock-data to generate tokens");
  else if (!paths.is_shared() && paths.per_split_data_args_path.empty() && paths.train_data_path.empty())
    report("--train-data-path", "is required with --valid-data-path and --test-data-path");
}

/// Reports what --full-validation would have to ignore, and names that do not fit the sets.
void check_full_validation(const DataOptions& data, const SplitSources& sources, Findings& findings) {
  const DataPathOptions& paths = data.paths;
  const auto& source = sources[enum_index(Split::valid)];
  const std::vector<std::string>& names = data.validation_set_names;
  const std::string flag = "--validation-set-names " + printable_text(join(names, " "));
  if (source && !names.empty() && names.size() != source->blend.prefixes.size())
    findings.problem(flag, cat("has ", count_of(std::ssize(names), "name"), " for ",
                               count_of(std::ssize(source->blend.prefixes), "validation set"), "; give each its own"));
  if (std::set(names.begin(), names.end()).size() != names.size())
    findings.problem(flag, "names two sets alike; give each its own name");
  if (!std::ranges::all_of(names, [](const std::string& name) { return printable_text(name) == name; }))
    findings.problem(flag, "has control characters or invalid UTF-8, which would break the logs; leave them out");
  if (!source)
    findings.problem("--full-validation", paths.is_per_split()
                                              ? "needs validation data; add --valid-data-path"
                                              : "needs validation data; set the second weight of --split above 0");
  else if (paths.is_per_split() && source->blend.weights)  // in --data-path, weights are for training, too
    findings.problem(source->flag, "has weights, but --full-validation reads every sample once; leave them out");
}

void check_data(const TrainOptions& options, Findings& findings, Console& console) {
  if (options.data.mock) return;
  const SplitSources sources = read_split_sources(options.data.paths, std::bind_front(&Findings::problem, &findings));
  if (options.batch.full_validation) check_full_validation(options.data, sources, findings);
  DataFiles files;
  std::map<std::string, std::shared_ptr<const IndexedDataset>> seen;  // by path, to report each fault once
  for (Split split : {Split::train, Split::valid, Split::test}) {
    const auto& source = sources[enum_index(split)];
    if (!source) continue;
    const bool is_used = split == Split::train || options.batch.eval_iters != 0 ||
                         (split == Split::valid && options.batch.full_validation);
    for (const std::string& path : source->blend.prefixes) {
      auto [at, is_new] = seen.emplace(path, nullptr);
      if (is_new) at->second = check_files(source->flag, path, options.dry_run, files, findings, console);
      const IndexedDataset* data = at->second.get();
      if (data == nullptr || !is_used) continue;
      const std::string shortage = describe_shortage(*source, split, options.data.paths.split, *data);
      if (shortage.empty()) continue;
      if (options.dry_run)
        console.warn(cat(data->prefix(), ": ", shortage, ". The run would be refused."));
      else
        findings.fault(cat(source->flag, " ", dataset_prefix(path)), Error(Exit::bad_data, data->prefix(), shortage));
    }
  }
}

/// Reports names that wandb could not upload: invalid UTF-8 in any, and in the project's, what its settings refuse.
void check_wandb_names(const WandbOptions& wandb, Findings& findings) {
  for (const auto& [flag, name] : {std::pair{"--wandb-exp-name ", wandb.name}, {"--wandb-entity ", wandb.entity}})
    if (printable_text(name) != name)
      findings.problem(flag + name, "has control characters or invalid UTF-8, which W&B refuses; leave them out");
  const std::string& project = wandb.project;
  if (printable_text(project) != project || project.find_first_of("/\\#?%:") != std::string::npos ||
      project.size() > 128)
    findings.problem("--wandb-project " + project,
                     "is no name of a project; use at most 128 characters, none of which "
                     "is a control character or one of / \\ # ? % :");
}

bool check_outputs(const TrainOptions& options, bool is_rank_zero, Findings& findings) {
  check_wandb_names(options.logging.wandb, findings);
  check_folder("--tensorboard-dir " + options.logging.tensorboard_dir, options.logging.tensorboard_dir, findings);
  check_folder("--wandb-save-dir " + options.logging.wandb.save_dir, options.logging.wandb.save_dir, findings);
  const auto can_write = [&](const std::string& flag, const std::string& path) {
    if (path.empty()) return false;
    if (is_directory(path)) findings.problem(flag + " " + path, "is a folder; add a file name");
    return !is_directory(path) && check_folder(flag + " " + path, fs::absolute(path).parent_path().string(), findings);
  };
  const std::string& log = options.logging.log_jsonl;
  if (can_write("--log-jsonl", log) && is_rank_zero && !options.dry_run) check_log(log, findings);
  const std::string& textfile = options.logging.log_prometheus;
  if (can_write("--log-prometheus", textfile) && !textfile.ends_with(".prom"))
    findings.problem("--log-prometheus " + textfile,
                     "must end in .prom, because the node exporter reads no other file");
  check_kill_switch(options.checkpoint.kill_switch_path, findings);
  return options.skip_train || check_folder("--save " + options.checkpoint.save, options.checkpoint.save, findings);
}

bool check_tokenizer_files(const TokenizerOptions& tokenizer, Findings& findings) {
  bool vocab = check_exists(findings, "--vocab-file", tokenizer.vocab_file, "; make one with mtl-vocab");
  bool merges =
      check_exists(findings, "--merge-file", tokenizer.merge_file, "; use the merges that belong to --vocab-file");
  const std::string& name = tokenizer.tokenizer_model;
  const bool model = name.empty() || file_exists(resolve_hub_name(name));
  if (!model) findings.missing("--tokenizer-model " + name, describe_missing_path(name));
  return vocab && merges && model;
}

void check_fused_attention(const TrainOptions& options, const ReportProblem& report) {
  if (options.device != Device::cuda || options.attention_backend != "fused") return;
  const auto refuse = [&](bool condition, const char* what) {
    if (condition) report("--attention-backend fused", what);
  };
  refuse(precision_of(options.precision).compute == DType::f32, "needs --bf16 or --fp16");
  refuse(options.dropout().attention > 0, "is not supported with dropout on attention; add --attention-dropout 0");
  refuse(options.data.reset_attention_mask, "is not supported with --reset-attention-mask; use only one of them");
  refuse(options.parallel.context > 1, "is not supported with --context-parallel-size; use only one of them");
}

void configure(TrainOptions& options, TrainSetup& setup, bool tokenizer_failed, const ReportProblem& report_problem) {
  RunStart& start = setup.start;
  bool complete = true;
  auto report = [&](std::string flag, std::string what) {
    complete = false;
    report_problem(std::move(flag), std::move(what));
  };
  bool separates_documents =
      options.data.eod_mask_loss || options.data.reset_position_ids || options.data.reset_attention_mask;
  std::int64_t vocab_size = setup.tokenizer == nullptr ? 1 : setup.tokenizer->vocab_size();
  // Without data files, only the size of the vocabulary matters.
  const bool needs_only_size = setup.tokenizer == nullptr && !start.source && (options.dry_run || options.data.mock);
  if (needs_only_size && options.tokenizer.vocab_size) {
    vocab_size = *options.tokenizer.vocab_size;
  } else if (needs_only_size && !tokenizer_failed) {
    report("--vocab-size", "is required without a tokenizer, because the size of the vocabulary is part of the model");
  } else if (setup.tokenizer == nullptr && !tokenizer_failed && (separates_documents || !start.source)) {
    report("--vocab-file, --merge-file",
           start.source ? "are required to distinguish documents, because the model has no tokenizer files"
                        : "are required, or another --tokenizer-type, because the tokenizer decides the size of the "
                          "vocabulary");
  }
  if (start.state) check_resumed_precision(options.precision, start, report);
  options.loaded_dropout = start.source ? start.source->dropout() : std::nullopt;
  if (const std::optional<ModelDropout>& dropout = options.loaded_dropout;
      dropout && dropout->embedding != dropout->hidden && !options.hidden_dropout) {
    report("--hidden-dropout", cat("is required: ", start.point.folder, " was trained with dropout ",
                                   dropout->embedding, " on embeddings and ", dropout->hidden,
                                   " on attention and MLP outputs, but mtl-train has one value for both"));
  }
  std::optional<GptConfig> loaded;
  if (start.source) loaded = start.config;
  if (loaded && setup.tokenizer == nullptr) vocab_size = options.tokenizer.vocab_size.value_or(1);
  GptConfig config = resolve_config(options, loaded, vocab_size, report);
  start.point.changes.clear();
  const bool is_complete = start.state && start.state->iteration >= options.train_iters();
  // As in Megatron-LM, a run without the checkpoint's moments does not continue its schedule.
  if (start.state && !is_complete && !start.point.resets_states)
    start.point.changes = changed_settings(options, start.point.folder, start.state->extra, report);
  if (loaded) add_extension(*loaded, config, start.point);
  if (loaded) check_new_tokens(options, *loaded, config, start, report);
  if (complete && setup.tokenizer) check_document_ends(options.data, *setup.tokenizer, config.vocab_size, report);
  start.config = config;
}

}  // namespace mtl
