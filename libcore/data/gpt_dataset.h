// Samples for GPT pre-training. A sample consists of S input tokens and S labels, which are the tokens shifted by one.
// Samples are cut from the document stream that data/sample_order.h defines. With OrderKind::megatron, every item
// equals the corresponding item in Megatron-LM's GPTDataset.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/sample_order.h"
#include "data/token_data.h"

namespace mtl {

struct GptDatasetOptions {
  SampleOrderOptions order;           // `name` is the data's
  std::int32_t eod = -1;              // the end-of-document id; -1: none
  std::int32_t pad = -1;              // the padding id; -1, or the same as eod: none
  std::int64_t vocab_size = 0;        // if > 0: item() throws for ids outside [0, vocab_size), except pad
  bool eod_mask_loss = false;         // mask the loss where the input is eod
  bool reset_position_ids = false;    // restart positions at 0 after each eod
  bool reset_attention_mask = false;  // prevent tokens after an eod from attending to tokens before it
};

/// One sample. Each vector has S entries.
struct Sample {
  std::vector<std::int32_t> tokens, labels;  // the padding id is replaced by 0
  std::vector<float> loss_mask;              // 0 for padding labels, and for eod inputs with eod_mask_loss; otherwise 1
  std::vector<std::int32_t> position_ids;
  /// With reset_attention_mask: for each position, the first position it may attend to. An eod belongs to the document
  /// it ends. Empty without reset_attention_mask.
  std::vector<std::int32_t> document_start;
};

/// Where an item's tokens are in the data.
struct SampleSource {
  std::int64_t dataset = 0;             // data set index in the blend
  std::int64_t sample = 0;              // shuffle_index[index] (data/sample_order.h)
  std::vector<std::int64_t> documents;  // sequence indices in the .idx
  std::int64_t first_offset = 0;        // offset of the first token in documents.front()
  std::int64_t last_offset = 0;         // offset of the last label in documents.back()
};

class GptDataset {
 public:
  /// Throws everything that SampleOrder throws, and Error(bad_data) if the data is multimodal.
  GptDataset(std::shared_ptr<const TokenData> data, const GptDatasetOptions& options);

  /// The number of samples: at least as many as requested.
  std::int64_t size() const { return order_.samples(); }
  /// Returns the sample at `index` in training order. `index` must be in [0, size()). Throws what read_tokens() throws,
  /// and Error(bad_data) if vocab_size is given and a token id is outside the vocabulary.
  Sample item(std::int64_t index) const;
  SampleSource describe(std::int64_t index) const;
  /// Returns an item's S + 1 stored token ids. A partial last sample has fewer. Throws what TokenData::read() and
  /// check_sizes() throw.
  std::vector<std::int32_t> read_tokens(std::int64_t index) const;
  /// Asks the operating system to prefetch an item's tokens. Returns immediately.
  void prefetch(std::int64_t index) const;

  /// The data set's name in messages.
  const std::string& name() const { return data_->name(); }

 private:
  void check_ids(const std::vector<std::int32_t>& ids, std::int64_t index) const;

  std::shared_ptr<const TokenData> data_;
  GptDatasetOptions options_;
  SampleOrder order_;
};

}  // namespace mtl
