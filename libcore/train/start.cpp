#include "train/start.h"
#include "ckpt/open_model.h"

#include "base/files.h"
#include "base/hash.h"
#include "base/hub_cache.h"
#include "ckpt/checkpoint_folder.h"
#include "ckpt/manifest.h"
#include "ckpt/model_folder.h"
#include "ckpt/model_formats.h"
#include "comm/rank_outcome.h"
#include "models/foreign_formats.h"
#include "run/run_plan.h"

namespace mtl {

namespace {

/// Returns the folder of an iteration that a flag requests. If it does not exist, throws an error that lists the
/// existing ones.
std::string named_checkpoint(const CheckpointOptions& flags, const std::string& directory, std::int64_t iteration) {
  std::string folder = cat(directory, "/", folder_of(iteration));
  if (file_exists(folder)) return folder;
  const std::vector<std::string> existing = texts_of(list_iterations(directory), folder_of);
  fail_at(Exit::usage, flags.ckpt_step ? cat("--ckpt-step ", iteration) : "--load " + flags.load, "there is no ",
          folder_of(iteration), " in ", directory,
          existing.empty() ? ", which contains no checkpoints; use another folder"
                           : cat("; choose one of ", join(existing, ", ")));
}

/// Returns the flags that supply what another program's model does not contain: --num-attention-heads and, if no flag
/// selects a tokenizer, --vocab-size. A preset says nothing about the size of a loaded model's vocabulary.
ModelSupplement supplement_of(const TrainOptions& options) {
  const ArchitectureOptions& model = options.architecture;
  const std::string heads_flag = "--num-attention-heads";
  const bool is_size_given = !options.tokenizer.names_tokenizer() && !model.preset_flags.contains("--vocab-size");
  return {.vocab_size = is_size_given ? options.tokenizer.vocab_size : std::nullopt,
          .num_attention_heads = model.num_attention_heads,
          .heads_flag =
              model.preset_flags.contains(heads_flag) ? cat("--model ", *model.preset, ", ", heads_flag) : heads_flag,
          .may_differ = true,  // resolve_architecture() compares all sizes
          .hf_config = options.checkpoint.hf_config};
}

/// True if `path` is a model, or another program's folder of several. False for a folder that mtl-train saves into.
bool is_single_model(const std::string& path) {
  Console silent("", true);
  return find_model_in(path, silent).has_value();
}

/// Throws if --save contains a model, but no checkpoint of a run to resume: the run would begin with random weights
/// next to it, and programs that open the folder later would take the one for the other.
void refuse_model_in_save(const CheckpointOptions& flags) {
  const bool loads_it = is_same_path(flags.load, flags.save);
  const std::string path = loads_it ? resolve_hub_name(flags.load) : flags.save;
  if (!is_directory(path) || !list_iterations(path).empty()) return;
  const FolderContents contents = examine_model_folder(path);
  const bool is_model = !contents.kind.empty() && !contents.is_save_folder;
  const std::string what = is_model ? "contains " + contents.kind : find_foreign_model(path).what;
  if (!what.empty())
    fail_at(Exit::bad_data, loads_it ? "--load " + flags.load : "--save " + flags.save, what,
            "; choose another folder for --save");
}

void open_source(RunStart& start, const TrainOptions& options, const std::string& path, bool is_resume,
                 Console& console) {
  start.source = open_model(path, console, supplement_of(options));
  start.config = start.source->config();
  start.state = is_resume ? start.source->state() : std::nullopt;
  if (start.state && start.state->extra.bool_or("consumed_samples_unknown", false)) {
    start.state->consumed_samples = options.batch_sizes().count_samples(start.state->iteration);
    console.warn(cat(start.source->folder(), " does not state how many samples the run has consumed; mtl assumes ",
                     with_commas(start.state->consumed_samples), ", which are ", start.state->iteration,
                     " iterations with the batch size of this run"));
  }
  start.point.folder = start.source->folder();
  start.point.kind = start.source->kind();
  start.point.iteration.reset();
  if (start.state) start.point.iteration = start.state->iteration;
}

/// Throws if the model's optimizer state cannot be resumed, unless the flags say to start with moments of zero. A run
/// must not lose its moments and its iteration without being told to.
void check_optimizer(const RunStart& start, const TrainOptions& options, Console& console) {
  std::string problem = start.source->optimizer_problem();
  if (problem.empty()) problem = start.source->other_rules(run_rules(options));
  const bool trains = start.state && start.state->iteration < options.train_iters() && !options.skip_train;
  const bool is_missing = problem.empty() && trains && !start.source->has_optimizer();
  const bool is_in_save = start.point.is_own || start.point.is_rollback;
  if (is_missing) problem = cat(start.point.folder, ": the model has no optimizer state");
  if (problem.empty()) return;
  if (start.point.is_own && !is_missing)
    fail(Exit::bad_data, problem,
         "; use its --optimizer, or --load it with --no-load-optim or --finetune and another --save folder");
  if (start.point.resets_states) return console.warn(cat("starting with moments of zero: ", problem));
  const std::string resume = start.state ? cat("use --no-load-optim to continue at iteration ", start.state->iteration,
                                               " with moments of zero, or ")
                                         : "";
  fail(is_missing ? Exit::usage : Exit::bad_data, problem, "; ", resume,
       is_in_save ? "use another --save folder" : "use --finetune to start at iteration 0 from the weights alone");
}

/// Opens the newest checkpoint in --save. If the flags request a rollback, opens that checkpoint instead, unless an
/// earlier start of the same command has already rolled back and trained further.
void open_own(RunStart& start, const TrainOptions& options, const std::vector<std::string>& damaged, Console& console) {
  const CheckpointOptions& flags = options.checkpoint;
  const std::optional<std::int64_t> target = rollback_target(flags);
  if (target && flags.finetune) {
    fail(Exit::usage, "--finetune cannot start at iteration 0 in ", flags.save,
         ", which contains the checkpoint to start from; choose another --save folder");
  }
  if (const auto newest = newest_checkpoint(flags.save, console, damaged)) {
    open_source(start, options, *newest, true, console);
    start.point.is_own = true;
  }
  if (!target) return;
  if (start.state && start.state->iteration > *target) {
    const Json* done = start.state->extra.find("rollback");
    if (done != nullptr && done->dump() == rollback_record(options).dump()) {
      console.info(cat("an earlier start of this command rolled back to iteration ", *target));
      return;
    }
  }
  open_source(start, options, named_checkpoint(flags, flags.save, *target), true, console);
  start.point.is_own = false;
  start.point.is_named = start.point.is_rollback = true;
}

void open_load(RunStart& start, const TrainOptions& options, const std::vector<std::string>& damaged,
               Console& console) {
  const CheckpointOptions& flags = options.checkpoint;
  std::string path = resolve_hub_name(flags.load);
  if (!file_exists(path)) fail_at(Exit::io, "--load " + flags.load, describe_missing_path(flags.load));
  const bool is_single = !flags.ckpt_step && is_single_model(path);
  if (flags.ckpt_step) {
    path = named_checkpoint(flags, path, *flags.ckpt_step);
  } else if (!is_single && !list_iterations(path).empty()) {
    path = newest_checkpoint(path, console, damaged).value_or(path);
  }
  start.point.is_named = is_single || flags.ckpt_step.has_value();
  open_source(start, options, path, !flags.finetune, console);
}

/// Says which dropout a loaded model continues with, and where it comes from.
std::string dropout_text(const StartPoint& start, const TrainOptions& options) {
  const auto origin = [&](const std::optional<double>& given, const char* flag) {
    if (given) return std::string(flag);
    return options.loaded_dropout ? "as in the " + start.kind : cat("default; the ", start.kind, " does not state it");
  };
  const ModelDropout dropout = options.dropout();
  return cat("dropout: hidden ", dropout.hidden, " (", origin(options.hidden_dropout, "--hidden-dropout"),
             "), attention ", dropout.attention, " (", origin(options.attention_dropout, "--attention-dropout"), ")");
}

/// Renames a checkpoint so that no later start finds it: to iter_0000012.KIND, or iter_0000012.KIND.2 and so on if that
/// exists.
std::string set_aside(const std::string& directory, std::int64_t iteration, const char* kind) {
  const std::string path = cat(directory, "/", folder_of(iteration)), first = cat(path, ".", kind);
  std::string name = first;
  for (int number = 2; file_exists(name); ++number) name = cat(first, ".", number);
  rename_path(path, name);
  return name;
}

void set_later_aside(const StartPoint& start, const std::string& directory, Console& console) {
  std::vector<std::int64_t> later;
  for (std::int64_t iteration : list_iterations(directory)) {
    if (iteration > *start.iteration) later.push_back(iteration);
  }
  if (later.empty()) return;
  if (start.is_rollback) open_model(start.folder, console).verify();
  for (std::int64_t iteration : later) {
    const bool is_rolled_back = start.is_rollback && is_sound(directory, iteration);
    const std::string name = set_aside(directory, iteration, is_rolled_back ? "rolled_back" : "damaged");
    console.warn(cat(directory, "/", folder_of(iteration), " is now ", name));
  }
  sync_directory(directory);
  write_tracker(directory, *start.iteration, [&console](const std::string& message) { console.warn(message); });
}

}  // namespace

bool is_same_path(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code error;
  const auto resolve = [&](const std::string& path) {
    fs::path resolved = fs::weakly_canonical(fs::absolute(path), error);
    return resolved.has_filename() ? resolved : resolved.parent_path();  // "ck/" is "ck"
  };
  return a == b || (resolve(a) == resolve(b) && !error);
}

std::optional<std::int64_t> rollback_target(const CheckpointOptions& flags) {
  if (flags.save.empty()) return std::nullopt;
  if (flags.ckpt_step && (flags.load.empty() || is_same_path(flags.load, flags.save))) return flags.ckpt_step;
  fs::path load = fs::path(flags.load).lexically_normal();
  if (!load.has_filename()) load = load.parent_path();
  const std::optional<std::int64_t> iteration = iteration_in_name(load.filename().string());
  const bool is_in_save = iteration && is_same_path((load.parent_path() / ".").string(), flags.save);
  return is_in_save ? iteration : std::nullopt;
}

Json rollback_record(const TrainOptions& options) {
  const std::optional<std::int64_t> target = rollback_target(options.checkpoint);
  if (!target) return Json();
  const std::string& settings = options.settings;
  return Json::object({{"iteration", *target}, {"settings", hash_text(hash_bytes(settings.data(), settings.size()))}});
}

RunStart find_start(const TrainOptions& options, std::shared_ptr<const SaveDirectory> save,
                    const std::vector<std::string>& damaged, Console& console) {
  const CheckpointOptions& flags = options.checkpoint;
  RunStart start;
  start.save = std::move(save);
  if (!flags.save.empty()) refuse_model_in_save(flags);
  if (!start.save && options.writes_save()) start.save = std::make_shared<const SaveDirectory>(flags.save, &console);
  if (!flags.save.empty() && (file_exists(flags.save) || rollback_target(flags)))
    open_own(start, options, damaged, console);
  if (!start.source && !flags.load.empty() && !is_same_path(flags.load, flags.save))
    open_load(start, options, damaged, console);
  if (!start.source) return start;
  // A requeued job continues with the moments of its newest checkpoint, if that has any.
  start.point.resets_states =
      flags.no_load_optim && start.state && !(start.point.is_own && start.source->has_optimizer());
  if (start.state || !flags.finetune) check_optimizer(start, options, console);
  return start;
}

void trim_vocabulary(RunStart& start, std::int64_t tokenizer_size, Console& console) {
  if (!start.source) return;
  start.source->trim_vocabulary(tokenizer_size > 0 ? std::optional(tokenizer_size) : std::nullopt, console);
  start.config = start.source->config();
}

RunStart share_start(const std::function<RunStart()>& find, const TrainOptions& options, Communicator& world) {
  RunStart start;
  const std::string answer = work_on_first_rank(world, [&] {
    start = find();
    return Json::object({{"folder", start.point.folder},
                         {"is_resume", start.state.has_value()},
                         {"is_own", start.point.is_own},
                         {"is_named", start.point.is_named},
                         {"is_rollback", start.point.is_rollback},
                         {"resets_states", start.point.resets_states}})
        .dump();
  });
  if (world.rank() == 0) return start;
  const Json found = Json::parse(answer);
  if (options.writes_save())
    start.save = std::make_shared<const SaveDirectory>(SaveDirectory::of_other_rank(options.checkpoint.save));
  Console silent("", true);
  if (const std::string& folder = found.at("folder").as_string(); !folder.empty())
    open_source(start, options, folder, found.bool_or("is_resume", false), silent);
  start.point.is_own = found.bool_or("is_own", false);
  start.point.is_named = found.bool_or("is_named", false);
  start.point.is_rollback = found.bool_or("is_rollback", false);
  start.point.resets_states = found.bool_or("resets_states", false);
  return start;
}

void adopt_start(const StartPoint& start, const TrainOptions& options, Communicator& world, Console& console) {
  const CheckpointOptions& flags = options.checkpoint;
  work_on_first_rank(world, [&] {
    if (options.writes_save() && (start.is_own || start.is_rollback)) set_later_aside(start, flags.save, console);
    return std::string();
  });
  if (start.iteration) {
    console.info(cat("resuming ", start.folder, " at iteration ", *start.iteration));
  } else if (!start.folder.empty()) {
    console.info(cat("starting from the weights of the ", start.kind, " ", start.folder));
  } else if (!flags.load.empty()) {
    console.info(cat(flags.load, " contains no checkpoints yet: starting from iteration 0"));
  }
  if (!start.folder.empty()) console.info(dropout_text(start, options));
  if (world.rank() == 0) {
    for (const std::string& change : start.changes) console.warn(change);
  }
  if (start.is_own && flags.no_load_optim && !start.resets_states)
    console.info("--no-load-optim has no effect on the newest checkpoint in --save: its moments are resumed");
}

bool is_damaged(const StartPoint& start, Communicator& world, Console& console) {
  if (start.is_named) return false;
  const std::string answer = work_on_first_rank(world, [&]() -> std::string {
    try {
      open_model(start.folder, console).verify();
      return "";
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      console.warn(cat("skipping an invalid checkpoint: ", error.what()));
      return "damaged";
    }
  });
  return !answer.empty();
}

}  // namespace mtl
