#include "cli/generate_run.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "cli/eval_tokenizer.h"
#include "cli/generate_prompts.h"
#include "cli/run_main.h"
#include "text/utf8.h"

namespace mtl {

namespace {

/// The end-of-document token, from the tokenizer or from the model's config.json.
std::optional<std::int32_t> end_token(const Tokenizer* tokenizer, const ModelSource& source) {
  if (tokenizer != nullptr) return tokenizer->eod();
  Json config = source.hf_config();
  const Json* id = config.is_object() ? config.find("eos_token_id") : nullptr;
  if (id == nullptr || !id->is_int() || id->as_int() < 0 || id->as_int() >= source.config().vocab_size) return {};
  return static_cast<std::int32_t>(id->as_int());
}

/// Prints completions in the order of the prompts, in the form that was asked for.
class Printer {
 public:
  Printer(const GenerateOptions& options, const Tokenizer* tokenizer, std::optional<std::int32_t> stop)
      : options_(options), tokenizer_(tokenizer), stop_(stop) {}

  /// Piece by piece, as tokens come.
  void begin(const Prompt& prompt) {
    first_ = true;
    last_ = prompt.ids.back();
    if (!options_.ids) show(prompt.text);
  }
  void token(std::int32_t id) {
    if (options_.ids) {
      show(cat(first_ ? "" : " ", id));
    } else if (id != stop_) {
      show(text_.push(text_after(last_, id)));
    }
    first_ = false;
    last_ = id;
  }
  void end() { show(text_.finish() + "\n"); }

  /// At once.
  void whole(const Prompt& prompt, std::int64_t sample, const Completion& completion) {
    if (options_.json_lines) return json(prompt, sample, completion);
    begin(prompt);
    for (std::int32_t id : completion.ids) token(id);
    end();
  }

 private:
  void json(const Prompt& prompt, std::int64_t sample, const Completion& completion) const {
    Json line = Json::object({{"prompt", decode_lossy(prompt.text)}});
    if (tokenizer_ != nullptr) line.set("completion", text_of(prompt, completion));
    line.set("ids", list(completion.ids));
    line.set("stop", completion.stopped ? "eos" : "length");
    if (options_.num_samples > 1) line.set("sample", sample);
    if (options_.logprobs) line.set("logprobs", list(completion.logprobs));
    print_out(line.dump() + "\n");
    std::fflush(stdout);
  }
  static void show(const std::string& text) {
    print_out(text);
    std::fflush(stdout);
  }
  template <class T>
  static Json list(const std::vector<T>& values) {
    Json out = Json::array();
    for (T value : values) out.push(value);
    return out;
  }
  /// What `id` adds to a text that ends with `last`. A model may have more ids than its tokenizer.
  std::string text_after(std::int32_t last, std::int32_t id) const {
    std::int64_t known = tokenizer_->vocab_size();
    if (id >= known) return decode_lossy("\xFF");
    if (last >= known) return tokenizer_->decode({&id, 1});
    const std::int32_t pair[] = {last, id};
    return tokenizer_->decode(pair).substr(tokenizer_->decode({&last, 1}).size());
  }
  std::string text_of(const Prompt& prompt, const Completion& completion) const {
    std::string bytes;
    std::int32_t last = prompt.ids.back();
    for (std::int32_t id : std::span(completion.ids).first(completion.ids.size() - (completion.stopped ? 1 : 0))) {
      bytes += text_after(last, id);
      last = id;
    }
    return decode_lossy(bytes);
  }

  const GenerateOptions& options_;
  const Tokenizer* tokenizer_;
  std::optional<std::int32_t> stop_;
  Utf8Stream text_;
  bool first_ = true;
  std::int32_t last_ = 0;
};

void warn_of_long_prompts(const std::vector<Prompt>& prompts, std::int64_t positions, Console& console) {
  for (const Prompt& prompt : prompts) {
    auto length = static_cast<std::int64_t>(prompt.ids.size());
    if (length > positions)
      console.warn(cat(prompt.where, ": the prompt has ", length, " tokens; the model sees the last ", positions));
  }
}

GenerationOptions generation_options(const GenerateOptions& options, std::optional<std::int32_t> stop) {
  return {options.max_new_tokens, options.greedy, options.sampling, static_cast<std::uint32_t>(options.seed), stop};
}

std::vector<Prompt> read_prompts(const GenerateOptions& options, const PromptReader& reader, Console& console) {
  std::vector<Prompt> prompts;
  if (options.prompt) {
    prompts.push_back(reader.read(*options.prompt, "--prompt"));
  } else {
    prompts = reader.read_file(options.input.empty() ? "-" : options.input);
  }
  warn_of_long_prompts(prompts, reader.model.positions(), console);
  return prompts;
}

/// Every prompt as often as samples are wanted of it.
std::vector<Request> requests_of(const std::vector<Prompt>& prompts, std::int64_t samples) {
  std::vector<Request> requests;
  for (const Prompt& prompt : prompts) {
    for (std::int64_t sample = 0; sample < samples; ++sample) requests.push_back({prompt.ids, requests.size()});
  }
  return requests;
}

/// Continues all prompts, a batch at a time, and prints them. True when some sequence filled the model's positions.
bool continue_all(const GenerateOptions& options, const std::vector<Prompt>& prompts, Generator& generator,
                  Printer printer) {
  const std::vector<Request> requests = requests_of(prompts, options.num_samples);
  const bool as_it_comes = options.batch_size == 1 && !options.json_lines;
  bool slid = false;
  for (std::size_t begin = 0, end; begin < requests.size(); begin = end) {
    end = std::min(requests.size(), begin + static_cast<std::size_t>(options.batch_size));
    auto prompt_of = [&](std::size_t i) -> const Prompt& {
      return prompts[(begin + i) / static_cast<std::size_t>(options.num_samples)];
    };
    if (as_it_comes) printer.begin(prompt_of(0));
    auto results = generator.run(std::span(requests).subspan(begin, end - begin), [&](std::size_t, std::int32_t id) {
      if (as_it_comes) printer.token(id);
    });
    if (as_it_comes) printer.end();
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!as_it_comes)
        printer.whole(prompt_of(i), static_cast<std::int64_t>(begin + i) % options.num_samples, results[i]);
      slid = slid || results[i].slides > 0;
    }
  }
  return slid;
}

}  // namespace

void generate(const GenerateOptions& options, Console& console) {
  ModelSource source = ModelSource::open(options.load, console);
  auto tokenizer = tokenizer_of_model(options.tokenizer, source);
  if (tokenizer == nullptr && !options.ids) {
    throw UsageError({{"--load " + options.load,
                       "the model has no tokenizer files: name them with --vocab-file and --merge-file, or "
                       "work with token ids, --ids"}});
  }
  auto end = end_token(tokenizer.get(), source);
  auto stop = options.ignore_eos ? std::nullopt : end;
  Model model(source, resolve_threads(options.threads));
  std::vector<Prompt> prompts = read_prompts(options, {model, tokenizer.get(), options.ids, end}, console);

  const std::int64_t sequences = std::ssize(prompts) * options.num_samples;
  if (sequences == 0) return;
  std::size_t longest = 0;
  for (const Prompt& prompt : prompts) longest = std::max(longest, prompt.ids.size());
  Generator generator(model, generation_options(options, stop), std::min(options.batch_size, sequences),
                      static_cast<std::int64_t>(longest));
  if (continue_all(options, prompts, generator, Printer(options, tokenizer.get(), stop))) {
    console.info(cat("the model's ", model.positions(), " positions were full: it went on from the last ",
                     std::max<std::int64_t>(1, model.positions() / 2), " tokens"));
  }
}

}  // namespace mtl
