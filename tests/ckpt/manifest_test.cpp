// Manifests: what is written and read back, what is refused, and how the ranks' parts are joined.
#include "ckpt/manifest.h"

#include <doctest/doctest.h>

#include "ckpt_fixtures.h"
#include "file_edits.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr const char* kSomeHash = "0123456789abcdef";

/// Returns a manifest of one tensor (4, 6) in two files, as the text of its tensors and files, and the rest as a Json.
std::string manifest_with(const std::string& files_and_tensors, const std::string& more = "") {
  const std::string state =
      R"({"iteration": 3, "consumed_samples": 4, "consumed_valid_samples": 5, "optimizer_steps": 6, )"
      R"("skipped_iterations": 7, "loss_scale": 8.5, "extra": {"a": 1}})";
  return cat(R"({"format": "mtl-checkpoint", "version": 1, "config": )", config_to_json(tiny_config()).dump(),
             R"(, "state": )", state, ", ", files_and_tensors, R"(, "provenance": {"p": 2})", more, "}");
}

const std::string kFilesAndTensors =
    R"("files": {"a": {"bytes": 48, "xxh3": "0123456789abcdef"}, "b": {"bytes": 48, "xxh3": "0123456789abcdee"}}, )"
    R"("tensors": {"t": {"dtype": "F32", "shape": [4, 6], "pieces": [)"
    R"({"file": "a", "offset": [0, 0], "size": [2, 6], "range": [0, 12], "xxh3": "0123456789abcdef"}, )"
    R"({"file": "b", "offset": [2, 0], "size": [2, 6], "range": [0, 12], "xxh3": "fedcba9876543210"}]}})";

std::string refusal_of_manifest(const std::string& text) {
  return error_of([&] { parse_manifest(text, ChecksumCheck::skip); }, Exit::bad_data);
}

/// Returns what a rank that saves these tensors whole, as fp32 in a file of its own, contributes.
Manifest part_with(const std::string& file,
                   const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& saved) {
  Manifest part;
  for (const auto& [name, shape] : saved)
    part.tensors.push_back({{name, StoredDType::f32, shape}, {{file, whole_slice(shape), kSomeHash}}});
  part.files.push_back({file, 1000, kSomeHash});
  return part;
}

/// Returns the names of the joined tensors, or the error.
std::string joined_parts(const std::vector<Manifest>& parts) {
  Manifest manifest;
  manifest.config = tiny_config();
  std::vector<std::string> texts;
  for (const Manifest& part : parts) texts.push_back(manifest_part_text(part));
  const std::string error = error_of([&] { join_manifest_parts(manifest, texts); });
  if (!error.empty()) return error;
  return join(manifest.tensors, " ", [](const ManifestTensor& entry) { return entry.tensor.name; });
}

}  // namespace

TEST_CASE("manifest: what is read is written again, with a checksum of everything but white space") {
  const std::string blocks =
      replaced(kFilesAndTensors, R"("0123456789abcdef"}, {"file": "b")",
               R"("0123456789abcdef", "blocks": ["0000000000000001", "0000000000000002"]}, {"file": "b")");
  const std::string other = replaced(blocks, R"("fedcba9876543210"})",
                                     R"("fedcba9876543210", "blocks": ["0000000000000003", "0000000000000004"]})");
  for (const std::string& text : {manifest_with(kFilesAndTensors), manifest_with(other, R"(, "block_bytes": 47)")}) {
    const Manifest manifest = parse_manifest(text, ChecksumCheck::skip);
    const std::string written = manifest_text(manifest);
    Json expected = Json::parse(text);
    const std::string checksum = Json::parse(written).at("checksum").as_string();
    CHECK(Json::parse(written).dump() == expected.set("checksum", checksum).dump());
    CHECK(manifest_text(parse_manifest(expected.dump())) == written);  // on one line
    CHECK(contains(error_of([&] { parse_manifest(replaced(written, "8.5", "8.0")); }, Exit::bad_data),
                   "the checksum does not match"));
    CHECK_THROWS_AS(parse_manifest(text), Error);
    CHECK(manifest.find_file("b")->hash == "0123456789abcdee");
    CHECK(manifest.find_file("c") == nullptr);
  }
}

TEST_CASE("manifest: each value that contradicts another, or is out of range, is refused") {
  const std::string text = manifest_with(kFilesAndTensors);
  CHECK(refusal_of_manifest(text).empty());
  const char* const first = R"("offset": [0, 0], "size": [2, 6], "range": [0, 12])";
  const char* const second = R"("offset": [2, 0], "size": [2, 6], "range": [0, 12])";
  struct Edit {
    const char* from;
    const char* to;
    const char* message;  // empty: accepted
  };
  const Edit edits[] = {
      {"mtl-checkpoint", "other", "not the manifest of an mtl checkpoint"},
      {R"("version": 1)", R"("version": 2)", "format version 2, but this mtl reads only version 1"},
      {R"("skipped_iterations": 7)", R"("skipped_iterations": -1)", "state.skipped_iterations is -1"},
      {R"("iteration": 3)", R"("iteration": 0)", ""},
      {R"({"a": 1})", "[]", "state.extra is not an object"},
      {R"("p": 2})", R"("p": 2}, "block_bytes": -1)", "block_bytes is -1"},
      {R"("p": 2})", R"("p": 2}, "block_bytes": 48)", ""},
      {R"("p": 2})", R"("p": 2}, "block_bytes": 47)", "has 0 hashes of blocks instead of 2"},
      {R"("fedcba9876543210")", R"("fedcba9876543210", "blocks": ["fedcba9876543210"])", "has 1 hashes of blocks"},
      {R"("fedcba9876543210")", R"("fedcba987654321")", "'fedcba987654321' is not a hash"},
      {R"("b": {"bytes": 48)", R"("b": {"bytes": -1)", "file 'b' has an invalid name or size"},
      {R"("b": {"bytes": 48)", R"("b": {"bytes": 47)", "'b' has more elements than fit in that file"},
      {R"("b": {"bytes": 48)", R"("../b": {"bytes": 48)", "file '../b' has an invalid name"},
      {R"("b": {"bytes": 48)", R"("manifest.json": {"bytes": 48)", "file 'manifest.json' has an invalid name"},
      {R"("b": {"bytes": 48)", R"("c": {"bytes": 48)", "its file 'b' is not in the manifest's list of files"},
      {R"("a": {"bytes": 48)", R"("b": {"bytes": 48)", "file 'b' has an invalid name or size, or is listed twice"},
      {R"("tensors": {)", R"("tensors": {"t": {"dtype": "F32", "shape": [0], "pieces": []}, )", "two entries have"},
      {R"("file": "b")", R"("file": "a")", "two of its pieces are in one file"},
      {"F32", "I32", "its dtype is 'I32', not a dtype of models"},
      {"F32", "F33", "its dtype is 'F33', not a dtype of models"},
      {"[4, 6]", "[1, 1, 1, 1, 1, 1, 1, 1, 1]", "more than 8 axes"},
      {"[4, 6]", "[1, 1, 1, 1, 1, 1, 1, 1]", "a slice is not inside its tensor"},
      {"[4, 6]", "[4, -6]", "a size or offset is -6"},
      {"[4, 6]", "[5, 6]", "its pieces have 24 elements, but its shape has 30"},
      {"[4, 6]", "[3, 6]", "a slice is not inside its tensor"},
      {first, R"("offset": [0], "size": [2, 6], "range": [0, 12])", "a slice is not inside its tensor"},
      {first, R"("offset": [0, 0], "size": [2], "range": [0, 2])", "a slice is not inside its tensor"},
      {first, R"("offset": [0, 0], "size": [2, 6], "range": [0])", "a slice is not inside its tensor"},
      {first, R"("offset": [0, 0], "size": [2, 7], "range": [0, 12])", "a slice is not inside its tensor"},
      {first, R"("offset": [5, 0], "size": [0, 6], "range": [0, 0])", "a slice is not inside its tensor"},
      {first, R"("offset": [0, 1], "size": [2, 6], "range": [0, 12])", "a slice is not inside its tensor"},
      {first, R"("offset": [0, 0], "size": [2, 6], "range": [0, 13])", "an element range is not inside its slice"},
      {first, R"("offset": [0, 0], "size": [2, 6], "range": [12, 0])", "an element range is not inside its slice"},
      {second, R"("offset": [2, 0], "size": [2, 6], "range": [1, 12])", "its pieces have 23 elements"},
      {second, R"("offset": [4, 0], "size": [0, 6], "range": [0, 0])", "its pieces have 12 elements"}};
  for (const auto& [from, to, message] : edits) {
    CAPTURE(to);
    const std::string found = refusal_of_manifest(replaced(text, from, to));
    CHECK(found.empty() == (*message == '\0'));
    CHECK(contains(found, message));
  }
  const auto huge = [&](const char* shape, const char* size, const char* range) {
    std::string changed = replaced(text, "[4, 6]", shape);
    changed = replaced(changed, first, cat(R"("offset": [0, 0], "size": )", size, R"(, "range": )", range));
    return refusal_of_manifest(
        replaced(changed, second, cat(R"("offset": [0, 0], "size": )", size, R"(, "range": )", range)));
  };
  CHECK(contains(huge("[4294967296, 4294967296]", "[4294967296, 4294967296]", "[0, 1]"),
                 "of a shape exceeds 63 bits; load another checkpoint"));
  CHECK(contains(huge("[4611686018427387904, 1]", "[4611686018427387904, 1]", "[0, 4611686018427387904]"),
                 "of its pieces exceeds 63 bits"));
}

TEST_CASE("manifest: the parts of all ranks are joined in the model's order, if they are exactly the model") {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> params, moments;
  std::string names, moment_names;
  for (const CanonicalTensor& tensor : canonical_tensors(tiny_config())) {
    params.emplace_back("param." + tensor.name, tensor.shape);
    names += cat(names.empty() ? "" : " ", "param.", tensor.name);
    for (const char* kind : {"exp_avg.", "exp_avg_sq."}) moments.emplace_back(kind + tensor.name, tensor.shape);
  }
  std::ranges::sort(moments);
  const Manifest weights = part_with("a", params);
  CHECK(joined_parts({weights}) == names);
  auto reversed = params;
  std::ranges::reverse(reversed);
  CHECK(joined_parts({part_with("a", reversed)}) == names);
  CHECK(starts_with(joined_parts({weights, part_with("b", moments)}), names + " exp_avg.embedding.tokens.weight "));

  const auto changed = [&](const auto& change) {
    Manifest part = weights;
    change(part);
    return joined_parts({part});
  };
  CHECK(contains(changed([](Manifest& part) { part.tensors.pop_back(); }), "because no rank has it in the shape (8)"));
  CHECK(contains(changed([](Manifest& part) {
                   part.tensors[0].tensor.shape = {8, 11};
                   part.tensors[0].pieces[0].slice = whole_slice({8, 11});
                 }),
                 "no rank has it in the shape"));
  CHECK(contains(joined_parts({weights, part_with("b", {{"param.x", {1}}})}),
                 "cannot save tensor 'param.x', which is not part"));
  CHECK(contains(joined_parts({weights, part_with("b", {{"momentum.x", {1}}})}), "'momentum.x', which is not part"));
  CHECK(contains(joined_parts({weights, part_with("b", {moments[0]})}), "cannot save tensor 'exp_avg."));
  CHECK(contains(joined_parts({weights, part_with("b", {params[0]})}),
                 "its pieces have 176 elements, but its shape has 88"));
  Manifest other = part_with("b", {params[0]});
  other.tensors[0].tensor.dtype = StoredDType::f16;
  CHECK(contains(joined_parts({weights, other}), "because ranks disagree on its dtype or shape"));
  other = part_with("b", {{params[0].first, {8, 11}}});
  CHECK(contains(joined_parts({weights, other}), "because ranks disagree on its dtype or shape"));
  const auto half = [&](const std::string& file, std::int64_t begin) {
    Manifest part = part_with(file, {params[0]});
    part.tensors[0].pieces[0].slice.begin = begin, part.tensors[0].pieces[0].slice.end = begin + 44;
    return part;
  };
  auto rest = params;
  rest.erase(rest.begin());
  CHECK(joined_parts({half("b", 44), part_with("a", rest), half("c", 0)}) == names);
  CHECK(contains(joined_parts({half("b", 43), part_with("a", rest), half("c", 0)}), "its pieces in c and b overlap"));
}

TEST_CASE("manifest: a checkpoint whose tensors are not exactly the model's is refused, with at most eight of them") {
  const ScratchFolder scratch;
  TestParams model(tiny_config(), false);
  const std::string folder = save_alone(SaveDirectory(scratch / "s"), tiny_config(), model.params, state_at(1));
  const Manifest good = read_sound_manifest(folder);
  const auto error = [&](const auto& change) {
    Manifest manifest = good;
    change(manifest);
    write_text(folder + "/manifest.json", manifest_text(manifest));
    return error_of([&] { open_quietly(folder); }, Exit::bad_data);
  };
  CHECK(error([](Manifest&) {}).empty());
  CHECK(error([](Manifest& manifest) { manifest.tensors.pop_back(); }) ==
        cat(folder, ": tensor 'param.final_norm.bias' is missing"));
  CHECK(contains(error([](Manifest& manifest) {
                   manifest.tensors.back().tensor.shape = {4, 2};
                   manifest.tensors.back().pieces[0].slice = whole_slice({4, 2});
                 }),
                 "'param.final_norm.bias' has shape (4, 2), but the configuration needs (8)"));
  const auto rename = [](Manifest& manifest, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) manifest.tensors[i].tensor.name = cat("param.x", i);
  };
  const std::string two = error([&](Manifest& manifest) { rename(manifest, 1); });
  CHECK(contains(two, "'param.embedding.tokens.weight' is missing\n  tensor 'param.x0' is not part of the model that"));
  CHECK(!contains(error([&](Manifest& manifest) { rename(manifest, 4); }), " more"));
  const std::string ten = error([&](Manifest& manifest) { rename(manifest, 5); });
  CHECK(ends_with(ten, "\n  and 2 more"));
  CHECK(contains(ten, "'param.x2'"));
  CHECK(!contains(ten, "'param.x3'"));
  const std::int64_t tensors = std::ssize(good.tensors);
  CHECK(contains(error([&](Manifest& manifest) { manifest.config.num_layers = tensors; }), "is missing"));
  CHECK(ends_with(error([&](Manifest& manifest) { manifest.config.num_layers = tensors + 1; }),
                  cat(" has ", tensors, " tensors, too few for a model with ", tensors + 1, " layers")));

  write_text(folder + "/manifest.json", manifest_text(good));
  const auto missing = [&](const std::string& file) {
    const std::string content = read_file(file);
    fs::remove(file);
    const std::string found = error_of([&] { open_quietly(folder); }, Exit::bad_data);
    write_text(file, content);
    return found;
  };
  CHECK(ends_with(missing(folder + "/shard_00000.safetensors"), cat(" and ", tensors - 2, " more tensors")));
  Manifest listed = good;
  listed.files.push_back({"merges.txt", 3, kSomeHash});
  write_text(folder + "/manifest.json", manifest_text(listed));
  CHECK(ends_with(error_of([&] { open_quietly(folder); }), "merges.txt is missing; it contains no tensors"));
  write_text(folder + "/merges.txt", "abcd");
  CHECK(ends_with(error_of([&] { open_quietly(folder); }), "has 4 bytes instead of 3; it contains no tensors"));
  fs::resize_file(folder + "/manifest.json", (256 << 20) + 1);
  CHECK(contains(error_of([&] { read_sound_manifest(folder); }, Exit::bad_data), "so it is not a manifest"));
}
