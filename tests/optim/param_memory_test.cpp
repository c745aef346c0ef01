// Parameter store: the table's bytes and extents, and what checkpoints contain, for any update rule.
#include "optim/param_memory.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "ckpt/shard_writer.h"
#include "models/canonical.h"
#include "tests/optim/rank_params.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const GptConfig kThreeLayers = tiny_gpt(3);

/// The layout of data-parallel ranks that share out the state.
Layout layout_of_shards(int ranks, int rank) { return layout_of({.data = ranks, .zero = ranks > 1 ? 1 : 0}, rank); }

/// A rule that declares any states.
class AnyStates : public AdamW {
 public:
  explicit AnyStates(std::vector<StateSpec> states) : states_(std::move(states)) {}
  std::vector<StateSpec> states(const Precision&) const override { return states_; }

 private:
  std::vector<StateSpec> states_;
};

const std::vector<std::vector<StateSpec>> kStates = {
    AdamW().states(kPrecisionFp32),
    {},
    {{"momentum"}},
    {{"mean", DType::f32}, {"square", DType::f64}, {"count", DType::i32}}};

}  // namespace

TEST_CASE("a store allocates once per row of its table, for update rules with any states") {
  for (int ranks : {1, 2, 3}) {
    for (const auto& states : kStates) {
      for (bool trains : {false, true}) {
        CAPTURE(ranks);
        CAPTURE(states.size());
        CAPTURE(trains);
        const BufferUse before = buffer_use();
        RankParams own(layout_of_shards(ranks, ranks - 1), kThreeLayers, kPrecisionFp32,
                       trains ? single_rule<AnyStates>(states) : RuleSet());
        const ParamMemory& store = own.store;
        std::size_t allocated = buffer_use().bytes - before.bytes, listed = 0, elements = 0;
        for (const Bucket& bucket : store.buckets()) elements += static_cast<std::size_t>(bucket.count);
        REQUIRE(store.table().size() == (trains ? 2 + states.size() : 1));
        REQUIRE(elements > 0);
        REQUIRE(store.buckets().size() > 1);
        CHECK(buffer_use().made - before.made == store.table().size());
        for (std::size_t row = 0; row < store.table().size(); ++row) {
          const Storage& storage = store.table()[row];
          std::size_t owners = storage.extent == Extent::owned ? static_cast<std::size_t>(ranks) : 1;
          CHECK(store.bytes(row) == elements * size_of(storage.dtype) / owners);
          listed += store.bytes(row);
        }
        CHECK(listed == allocated);
        CHECK(store.has_gradients() == trains);
      }
    }
  }
}

TEST_CASE("values and gradients are whole on every rank, states only for owned ranges") {
  RankParams own(layout_of_shards(2, 1), kThreeLayers);
  const std::vector<Storage>& table = own.store.table();
  CHECK(table[kValues].role == StorageRole::values);
  CHECK(table[kValues].extent == Extent::whole);
  CHECK(table[kGradients].role == StorageRole::gradients);
  CHECK(table[kGradients].extent == Extent::whole);
  for (std::size_t row = kFirstState; row < table.size(); ++row) {
    CHECK(table[row].role == StorageRole::states);
    CHECK(table[row].extent == Extent::owned);
  }
  for (int param = 0; param < own.store.size(); ++param) {
    CAPTURE(own.store.specs()[static_cast<std::size_t>(param)].name);
    CHECK(own.store.row_part(param, kValues).raw() == own.store.value(param).raw());
    CHECK(own.store.row_part(param, kValues).numel() == own.store.value(param).numel());
    CHECK(own.store.row_slice(param, kValues) == own.store.slice(param));
    CHECK(own.store.row_slice(param, kFirstState) == own.store.owned_slice(param));
    CHECK(own.store.row_part(param, kFirstState).numel() == own.store.owned(param, kValues).numel());
  }
}

TEST_CASE("checkpoints hold parameters and the rule's states, under the rule's names, and no gradients") {
  for (const auto& states : kStates) {
    RankParams own(layout_of({}, 0), kThreeLayers, kPrecisionFp32, single_rule<AnyStates>(states));
    std::map<std::string, int> kinds;
    std::size_t bytes = 0;
    for (const TensorToSave& item : tensors_to_save(own.store, true)) {
      ++kinds[item.tensor.name.substr(0, item.tensor.name.find('.'))];
      bytes += item.bytes().size();
    }
    CHECK(static_cast<std::size_t>(checkpoint_bytes(kThreeLayers, kPrecisionFp32, single_rule<AnyStates>(states))) ==
          bytes);
    CHECK(kinds.size() == 1 + states.size());
    CHECK(kinds["param"] == own.store.size());
    for (const StateSpec& state : states) CHECK(kinds[state.name] == own.store.size());
  }
}

TEST_CASE("buckets end at units, group parameters that are reduced and updated alike, and exclude a tied table") {
  for (std::int64_t least : {1, 600, 4000, 1 << 30}) {
    for (bool sequence_parallel : {false, true}) {
      CAPTURE(least);
      CAPTURE(sequence_parallel);
      Layout layout = layout_of({.tensor = 2, .data = 2, .zero = 1}, 0);
      layout.sequence_parallel = sequence_parallel;
      Chunk chunk({.config = kThreeLayers, .padded_vocab = 48, .region = {sequence_parallel}},
                  {.first_layer = 0, .num_layers = 3});
      ParamMemory store(Device::cpu, kPrecisionFp32, single_rule<AdamW>(),
                        [&](const ParamVisitor& visit) { chunk.params(visit); }, layout, {.bucket_elements = least});
      // Groups consecutive units, starting with the last, until there are enough elements.
      std::map<int, int> group_of;  // by unit
      std::int64_t elements = 0;
      for (int unit = 4, group = 0; unit >= 0; --unit) {  // the head, three layers, the embedding
        if (elements >= least) ++group, elements = 0;
        group_of[unit] = group;
        for (int param = 0; param < store.size(); ++param) {
          const ParamSpec& spec = store.specs()[static_cast<std::size_t>(param)];
          if (spec.unit == unit && !spec.ownership.on_end_stages) elements += store.value(param).numel();
        }
      }
      CHECK((least == 1) == (group_of[0] == 4));
      CHECK((least == 1 << 30) == (group_of[0] == 0));
      int seen = 0;
      std::set<std::pair<int, BucketKey>> buckets;
      for (const Bucket& bucket : store.buckets()) {
        REQUIRE(!bucket.segments.empty());
        int group = group_of[unit_of(store, bucket.segments.front().param)];
        CHECK(buckets.emplace(group, bucket.key).second);
        for (const Segment& segment : bucket.segments) {
          const ParamSpec& spec = store.specs()[static_cast<std::size_t>(segment.param)];
          CAPTURE(spec.name);
          CHECK(group_of.at(spec.unit) == group);
          CHECK(BucketKey(spec, store.rules().traits(spec)) == bucket.key);
          CHECK(spec.decays() == bucket.key.traits.decays);
          CHECK(spec.ownership.partial == bucket.key.ownership.partial);
          CHECK(spec.ownership.on_end_stages ==
                (bucket.segments.size() == 1 && spec.name == "embedding.tokens.weight"));
          ++seen;
        }
      }
      CHECK(seen == store.size());
    }
  }
}

TEST_CASE("every updated range begins on a cache line, in every dtype and on every rank") {
  const auto is_aligned = [](const Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.raw()) % 64 == 0; };
  Precision narrow = kPrecisionFp32;  // varied dtypes, odd sizes: tiny_gpt's biases have 16 elements
  narrow.compute = narrow.load = narrow.main_grads = narrow.exp_avg = DType::bf16;
  int seen = 0;
  for (int ranks : {1, 2, 3}) {
    for (const Precision& precision : {kPrecisionFp32, narrow}) {
      for (int rank = 0; rank < ranks; ++rank) {
        const GptConfig config = gpt_of_size({.vocab = 41, .layers = 2, .hidden = 6, .heads = 2, .positions = 7});
        Chunk chunk({.config = config, .padded_vocab = 43}, {.first_layer = 0, .num_layers = 2});
        const ParamMemory store(
            Device::cpu, precision, single_rule<AdamW>(), [&](const ParamVisitor& visit) { chunk.params(visit); },
            layout_of_shards(ranks, rank), kSmallBuckets);
        for (const Bucket& bucket : store.buckets()) {
          CHECK(is_aligned(bucket.owned_main()));
          CHECK(is_aligned(bucket.owned_values()));
          CHECK(is_aligned(bucket.owned_grads()));
          for (const Tensor& state : bucket.states()) CHECK(is_aligned(state));
        }
        for (int param = 0; param < store.size(); ++param) {
          CAPTURE(store.specs()[static_cast<std::size_t>(param)].name);
          for (std::size_t row = 0; row < store.table().size(); ++row) {
            const Tensor owned = store.owned(param, row);
            if (owned.numel() == 0) continue;
            CHECK(is_aligned(owned));
            ++seen;
          }
        }
      }
    }
  }
  CHECK(seen > 100);
}
