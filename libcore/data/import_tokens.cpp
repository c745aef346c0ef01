#include "data/import_tokens.h"

#include <algorithm>
#include <functional>
#include <span>

#include "base/error.h"
#include "base/interrupt_guard.h"
#include "base/mapped_pages.h"
#include "base/output_lock.h"
#include "data/indexed_format.h"
#include "data/number_writer.h"
#include "data/provenance.h"
#include "data/publish.h"
#include "data/stored_width.h"

namespace mtl {
namespace {

using Bytes = std::span<const std::byte>;

/// Divides a stream of tokens into documents.
class DocumentDivider {
 public:
  explicit DocumentDivider(const DocumentToken& token) : token_(token) {}

  /// Adds tokens stored as `type`. Calls use(tokens) for each document that is complete.
  template <class Use>
  void add(IntegerType type, Bytes tokens, const Use& use) {
    visit_integer(type, [&]<class T>(T) { add_as<T>(tokens, use); });
  }
  /// Calls use(tokens) for the last document, unless it ended before.
  template <class Use>
  void finish(const Use& use) {
    if (open_ > 0) use(open_);
    open_ = 0;
  }
  bool has_found_token() const { return has_found_token_; }

 private:
  static constexpr std::int64_t kRun = 256;

  /// True if the token may be among `tokens`: an id that T cannot represent is compared by its low bits. Without an
  /// early exit, the compiler vectorizes the loop.
  template <class T>
  bool has_token(Bytes tokens) const {
    const T id = static_cast<T>(token_.id);
    T found = 0;
    for (std::size_t i = 0; i < tokens.size() / sizeof(T); ++i)
      found |= load_at<T>(tokens.data() + i * sizeof(T)) == id;
    return found != 0;
  }

  template <class T, class Use>
  void add_as(Bytes tokens, const Use& use) {
    const auto count = static_cast<std::int64_t>(tokens.size() / sizeof(T));
    const std::int64_t after = token_.is_first ? 0 : 1;
    std::int64_t begin = -open_;
    const auto is_token = [&](std::int64_t i) {
      return static_cast<std::int64_t>(load_at<T>(tokens.data() + i * sizeof(T))) == token_.id;
    };
    for (std::int64_t run = 0; run < count; run += kRun) {
      const std::int64_t run_end = std::min(count, run + kRun);
      if (!has_token<T>(tokens.subspan(run * sizeof(T), (run_end - run) * sizeof(T)))) continue;
      for (std::int64_t i = run; i < run_end; ++i) {
        if (!is_token(i)) continue;
        has_found_token_ = true;
        const std::int64_t end = i + after;
        if (end > begin) use(end - begin);
        begin = end;
      }
    }
    open_ = count - begin;
  }

  DocumentToken token_;
  std::int64_t open_ = 0;  // tokens of the document that is not complete
  bool has_found_token_ = false;
};

class Importer {
 public:
  Importer(const ImportOptions& options, const std::vector<FlatTokenFile>& inputs, DataType type)
      : options_(options), inputs_(inputs), to_(integer_type(type)), files_(options.prefix, type) {
    if (options.document_token) divider_.emplace(*options.document_token);
  }

  void write(ByteProgress& progress) {
    for (const FlatTokenFile& input : inputs_) write_tokens(input, progress);
    if (divider_) divider_->finish(count_);
    files_.written.sequences = files_.written.documents;
    write_idx();
    files_.seal();
  }
  TokenFilePair& files() { return files_; }
  bool has_found_token() const { return divider_ && divider_->has_found_token(); }
  /// The records of all inputs, which write() has read.
  const Json& sources() const { return sources_; }

 private:
  void write_tokens(const FlatTokenFile& input, ByteProgress& progress) {
    const IntegerType from = input.type();
    // mtl reads ids as 32 bits (IndexedDataset::read).
    IdRange range = common_range(range_of(to_), {0, INT32_MAX});
    if (options_.vocab_size) range = common_range(range, {0, *options_.vocab_size - 1});
    if (!divider_ && input.tokens() > 0) count_document(input.tokens());  // before the work, as it may be too long
    Hasher hasher;
    std::vector<std::byte> header(input.header_bytes()), block(kConversionTokens * from.bytes), converted;
    converted.resize(kConversionTokens * to_.bytes);
    input.read(0, header);
    hasher.update(header.data(), header.size());
    for (std::int64_t done = 0; done < input.tokens();) {
      const std::size_t count = std::min<std::int64_t>(input.tokens() - done, kConversionTokens);
      const auto part = std::span(block).first(count * from.bytes);
      input.read(input.header_bytes() + done * from.bytes, part);
      hasher.update(part.data(), part.size());
      if (const auto outside = find_outside(from, part, range)) fail_outside(input, part, *outside, done);
      convert_ids(from, part, to_, converted.data());
      if (divider_) divider_->add(to_, std::span(converted).first(count * to_.bytes), count_);
      files_.bin.out().write(converted.data(), count * to_.bytes);
      progress.add(count * to_.bytes);
      done += static_cast<std::int64_t>(count);
    }
    files_.written.tokens += input.tokens();
    sources_.push(describe_input(input.path(), input.bytes(), hasher.digest()));
  }

  void count_document(std::int64_t tokens) {
    ++files_.written.documents;
    if (tokens <= INT32_MAX) return;
    fail(Exit::bad_data, options_.prefix, ": a document has ", with_commas(tokens),
         " tokens, but the format allows 2^31 - 1; ",
         options_.document_token ? "check the id that --eod or the tokenizer names"
                                 : "use --eod ID, or a tokenizer, to divide the tokens into documents");
  }

  /// Calls use(tokens) for each document, in order.
  template <class Use>
  void for_each_document(const Use& use) {
    if (!options_.document_token) {
      for (const FlatTokenFile& input : inputs_) {
        if (input.tokens() > 0) use(input.tokens());
      }
      return;
    }
    const MappedFile bin(files_.bin.out().path());
    DocumentDivider divider(*options_.document_token);
    for (Bytes unread = bin.bytes(); !unread.empty();) {
      const Bytes part = unread.first(std::min<std::size_t>(unread.size(), kMappedPages));
      divider.add(to_, part, use);
      unread = unread.subspan(part.size());
      release_pages(bin);
    }
    divider.finish(use);
  }

  void write_idx() {
    const std::int64_t documents = files_.written.documents;
    OutputFile& out = files_.idx.out();
    out.write(index_header(files_.written.type, documents, documents));
    NumberWriter numbers(out);
    for_each_document([&](std::int64_t tokens) { numbers.add(static_cast<std::int32_t>(tokens)); });
    for_each_document([&](std::int64_t tokens) { numbers.add_sum(tokens * to_.bytes); });
    for (std::int64_t document = 0; document <= documents; ++document) numbers.add(document);
    numbers.flush();
  }

  /// Throws for token `position` of a block whose first token is the file's token `first`.
  [[noreturn]] void fail_outside(const FlatTokenFile& input, Bytes block, std::size_t position, std::int64_t first) {
    const std::string id = token_text(input.type(), block, position);
    const std::int64_t token = first + static_cast<std::int64_t>(position);
    const std::int64_t highest = range_of(to_).highest;
    std::string what = cat(", which does not fit in ", name_of(to_), "; choose a larger --token-type");
    if (id.front() == '-') {
      what = ", but ids are not negative; make the file again";
    } else if (options_.vocab_size && parse_int(id).value_or(INT64_MAX) >= *options_.vocab_size) {
      what = cat(", but the ids of the vocabulary are 0 to ", *options_.vocab_size - 1,
                 "; select the tokenizer that made the data");
    } else if (highest >= INT32_MAX) {
      what = ", but ids have at most 31 bits; make the file again";
    }
    fail_at(Exit::bad_data, input.path(), "token ", token, " (byte ", input.header_bytes() + token * input.type().bytes,
            ") is ", id, what, input.format() == TokenFormat::nanogpt ? ", or choose another --input-type" : "");
  }

  const ImportOptions& options_;
  const std::vector<FlatTokenFile>& inputs_;
  IntegerType to_;
  TokenFilePair files_;
  std::optional<DocumentDivider> divider_;  // of the tokens written so far
  const std::function<void(std::int64_t)> count_ = [this](std::int64_t tokens) { count_document(tokens); };
  Json sources_ = Json::array();
};

/// Warns if a file that does not state the type of its tokens seems to have another.
void warn_of_width(const FlatTokenFile& input, Console& console) {
  constexpr std::uint64_t kSample = 1 << 20;
  if (input.format() != TokenFormat::nanogpt) return;
  std::vector<std::byte> sample(std::min(input.bytes(), kSample));
  input.read(0, sample);
  const int width = input.type().bytes;
  const std::optional<int> other = other_stored_width(sample, width);
  if (!other) return;
  const std::string right = name_of(IntegerType{*other, false});
  console.warn(cat(input.path(), ": the tokens seem to be stored as ", right, ", not ", name_of(input.type()),
                   ", which makes ", *other > width ? cat(*other / width, " ids of each") : "one id of several",
                   "; if so, import them again with --input-type ", right));
}

/// Warns if the tokens begin with the token that ends documents: it may begin them instead.
void warn_of_first_token(const ImportOptions& options, const FlatTokenFile& input, Console& console) {
  if (!options.document_token || options.document_token->is_first || input.tokens() == 0) return;
  std::vector<std::byte> token(input.type().bytes);
  input.read(input.header_bytes(), token);
  if (token_text(input.type(), token, 0) != std::to_string(options.document_token->id)) return;
  console.warn(cat(input.path(), " begins with the end-of-document token ", options.document_token->id,
                   "; if it begins each document, as in llm.c's files, add --eod-first"));
}

}  // namespace

DataType default_import_type(const std::vector<FlatTokenFile>& inputs) {
  IdRange needed{0, 0};
  for (const FlatTokenFile& input : inputs) {
    const IdRange range = range_of(input.type());
    needed = {std::min(needed.lowest, range.lowest), std::max(needed.highest, range.highest)};
  }
  for (const DataType type : {DataType::u8, DataType::i8, DataType::u16, DataType::i16}) {
    const IdRange range = range_of(integer_type(type));
    if (range.lowest <= needed.lowest && range.highest >= needed.highest) return type;
  }
  return DataType::i32;
}

TokenFilesMade import_tokens(const ImportOptions& options, const std::vector<FlatTokenFile>& inputs, Console& console) {
  const DataType type = options.type.value_or(default_import_type(inputs));
  std::vector<std::string> names, read = options.other_inputs;
  for (const char* ending : {".bin", ".idx", ".json"}) names.push_back(options.prefix + ending);
  std::uint64_t bytes = 0;
  for (const FlatTokenFile& input : inputs) {
    read.push_back(input.path());
    bytes += input.tokens() * item_size(type);
  }
  for (const FlatTokenFile& input : inputs) warn_of_width(input, console);
  InterruptGuard guard(console.program());  // destroyed after the files it would remove
  const std::vector<OutputLock> locks =
      claim_outputs({.prefixes = {options.prefix}, .names = names, .inputs = read}, guard, console);
  require_space(options.prefix, bytes);
  ByteProgress progress(console, bytes);
  Importer importer(options, inputs, type);
  importer.write(progress);
  const Json output = describe_output(importer.files().written);
  std::vector<SealedTokenFiles> sealed;
  sealed.emplace_back(
      make_provenance(options.command.front(), options.command, options.tokenizer, importer.sources(), output),
      importer.files());
  {
    const auto kept = guard.keep_files();
    publish_token_files(sealed);
  }
  console.end_progress();
  warn_of_first_token(options, inputs.front(), console);
  constexpr const char* kUndivided = "which --split, `mtl-data split` and `mtl-data shuffle` cannot divide; ";
  if (!options.document_token)
    console.warn(cat("each file is one document, ", kUndivided, "use --eod ID, or a tokenizer, to find the documents"));
  else if (!importer.has_found_token() && importer.files().written.tokens > 0)
    console.warn(cat("the end-of-document token ", options.document_token->id,
                     " does not occur, so all tokens are one document, ", kUndivided,
                     "check the id that --eod or the tokenizer names"));
  return {{output}, progress.seconds()};
}

}  // namespace mtl
