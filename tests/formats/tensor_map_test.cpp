// TensorMap: reads every slice of a canonical tensor from pieces in any order, and compares it element by element.
#include <doctest/doctest.h>

#include <random>

#include "formats/tensor_map.h"
#include "tests/error_of.h"

using namespace mtl;
using namespace mtl::test;

namespace {

Slice box_of(std::vector<std::int64_t> offset, std::vector<std::int64_t> size) {
  Slice box = whole_slice(size);
  box.offset = std::move(offset);
  return box;
}

std::int64_t flat_index(const std::vector<std::int64_t>& index, const std::vector<std::int64_t>& shape) {
  std::int64_t at = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) at = at * shape[axis] + index[axis];
  return at;
}

/// Returns the index in the whole tensor of a box's element `number`.
std::vector<std::int64_t> index_in(const Slice& box, std::int64_t number) {
  std::vector<std::int64_t> index = box.offset;
  for (std::size_t axis = box.size.size(); axis-- > 0;) {
    index[axis] += number % box.size[axis];
    number /= box.size[axis];
  }
  return index;
}

/// Returns a canonical tensor's files, filled one element at a time. Each element equals its own index.
template <class T>
std::vector<std::vector<T>> make_files(const std::vector<TensorPiece>& pieces, const std::vector<std::int64_t>& shape,
                                       std::size_t files, std::int64_t elements) {
  std::vector<std::vector<T>> out(files, std::vector<T>(elements, static_cast<T>(-1)));
  for (const TensorPiece& piece : pieces) {
    for (std::int64_t i = 0; i < piece.box.count(); ++i) {
      const std::vector<std::int64_t> index = index_in(piece.box, i);
      std::int64_t at = piece.file_offset;
      for (std::size_t axis = 0; axis < shape.size(); ++axis)
        at += (index[axis] - piece.box.offset[axis]) * piece.file_strides[axis];
      out[piece.file].at(at) = static_cast<T>(flat_index(index, shape));
    }
  }
  return out;
}

template <class T>
std::vector<std::span<const std::byte>> contents_of(const std::vector<std::vector<T>>& files) {
  std::vector<std::span<const std::byte>> out;
  for (const std::vector<T>& file : files) out.push_back(std::as_bytes(std::span(file)));
  return out;
}

struct Case {
  const char* name;
  std::vector<std::int64_t> shape;
  std::vector<TensorPiece> pieces;
  std::size_t files;
  std::int64_t elements;  // per file
};

std::vector<Case> cases() {
  const std::vector<std::int64_t> qkv = {3, 4, 5, 37}, matrix = {40, 70}, vector = {11};  // (G, R + 2, D, C)
  return {{.name = "one vector",
           .shape = vector,
           .pieces = {dense_piece(0, whole_slice(vector))},
           .files = 1,
           .elements = 11},
          {.name = "a matrix with padding rows",
           .shape = matrix,
           .pieces = {dense_piece(0, whole_slice(matrix))},
           .files = 1,
           .elements = 50 * 70},
          {.name = "transposed",
           .shape = matrix,
           .pieces = {dense_piece(0, whole_slice(matrix), {1, 0})},
           .files = 1,
           .elements = 40 * 70},
          {.name = "[queries | keys | values] transposed",
           .shape = qkv,
           .pieces = {dense_piece(0, whole_slice(qkv), {3, 1, 0, 2})},
           .files = 1,
           .elements = 2220},
          {.name = "per group [head_dim, roles]",
           .shape = qkv,
           .pieces = {dense_piece(0, whole_slice(qkv), {0, 2, 1, 3})},
           .files = 1,
           .elements = 2220},
          {.name = "queries, keys and values apart",
           .shape = qkv,
           .pieces = {dense_piece(0, box_of({0, 0, 0, 0}, {3, 2, 5, 37})),
                      dense_piece(1, box_of({0, 2, 0, 0}, {3, 1, 5, 37})),
                      dense_piece(2, box_of({0, 3, 0, 0}, {3, 1, 5, 37}))},
           .files = 3,
           .elements = 1110},
          {.name = "two ranks' shards, transposed, in one file",
           .shape = matrix,
           .pieces = {dense_piece(0, box_of({0, 0}, {16, 70}), {1, 0}),
                      dense_piece(0, box_of({16, 0}, {24, 70}), {1, 0}, 16 * 70)},
           .files = 1,
           .elements = 40 * 70},
          {.name = "every other element",
           .shape = vector,
           .pieces = {{.box = box_of({0}, {6}), .file = 0, .file_offset = 0, .file_strides = {2}},
                      {.box = box_of({6}, {5}), .file = 0, .file_offset = 1, .file_strides = {2}}},
           .files = 1,
           .elements = 11}};
}

template <class T>
void check_slices(const Case& test, std::mt19937& random) {
  const std::vector<std::vector<T>> files = make_files<T>(test.pieces, test.shape, test.files, test.elements);
  const auto contents = contents_of(files);
  auto below = [&](std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random); };
  for (int round = 0; round < 60; ++round) {
    Slice slice = whole_slice(test.shape);
    if (round > 0) {
      for (std::size_t axis = 0; axis < test.shape.size(); ++axis) {
        slice.offset[axis] = below(test.shape[axis]);
        slice.size[axis] = 1 + below(test.shape[axis] - slice.offset[axis]);
      }
      const std::vector<std::int64_t> offset = slice.offset;
      slice = box_of(offset, slice.size);
      slice.begin = below(slice.end);
      slice.end = slice.begin + below(slice.end - slice.begin + 1);
    }
    std::vector<T> got(slice.count() + 1, static_cast<T>(-2));
    gather_slice(test.pieces, slice, sizeof(T), contents, std::as_writable_bytes(std::span(got).first(slice.count())));
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < slice.count(); ++i)
      wrong += got[i] != static_cast<T>(flat_index(index_in(slice, slice.begin + i), test.shape));
    CHECK(wrong == 0);
    CHECK(got.back() == static_cast<T>(-2));
  }
  std::vector<std::vector<T>> back(test.files, std::vector<T>(test.elements, static_cast<T>(-1)));
  for (const TensorPiece& piece : test.pieces) {
    std::vector<T> box(piece.box.count());
    gather_slice(test.pieces, piece.box, sizeof(T), contents, std::as_writable_bytes(std::span(box)));
    scatter_piece(piece, sizeof(T), std::as_bytes(std::span(box)), std::as_writable_bytes(std::span(back[piece.file])));
  }
  CHECK((back == files));
}

}  // namespace

TEST_CASE("tensor map: every slice has the elements of its pieces, and pieces are written back into their files") {
  std::mt19937 random(16);
  for (const Case& test : cases()) {
    CAPTURE(test.name);
    check_slices<std::uint16_t>(test, random);
    check_slices<float>(test, random);
    check_slices<double>(test, random);
  }
}

TEST_CASE("tensor map: is_same_order is true only for elements in canonical order from the start of the file") {
  const std::vector<std::int64_t> shape = {4, 6};
  CHECK(is_same_order(dense_piece(0, whole_slice(shape))));
  CHECK_FALSE(is_same_order(dense_piece(0, whole_slice(shape), {1, 0})));
  CHECK_FALSE(is_same_order(dense_piece(0, whole_slice(shape), {}, 6)));
  CHECK(dense_piece(0, whole_slice(shape), {1, 0}).file_strides == std::vector<std::int64_t>{1, 4});
}

TEST_CASE("tensor map: missing elements and truncated files are errors") {
  const std::vector<std::int64_t> shape = {4, 6};
  const std::vector<float> file(24);
  std::vector<float> got(24);
  auto gather = [&](std::span<const TensorPiece> pieces, std::size_t elements) {
    const std::span<const std::byte> contents = std::as_bytes(std::span(file).first(elements));
    gather_slice(pieces, whole_slice(shape), 4, {&contents, 1}, std::as_writable_bytes(std::span(got)));
  };
  const TensorPiece whole = dense_piece(0, whole_slice(shape)), half = dense_piece(0, box_of({0, 0}, {2, 6}));
  CHECK(error_of([&] { gather({&whole, 1}, 24); }) == "");
  CHECK(contains(error_of([&] { gather({&half, 1}, 24); }), "hold 12 of 24 elements"));
  CHECK(contains(error_of([&] { gather({&whole, 1}, 23); }), "ends at element 23"));
  const std::vector<std::byte> triples(72);
  std::vector<std::byte> out(72);
  const std::span<const std::byte> contents = triples;
  const TensorPiece transposed = dense_piece(0, whole_slice(shape), {1, 0});
  CHECK(contains(error_of([&] {
                   gather_slice({&transposed, 1}, whole_slice(shape), 3, {&contents, 1}, out);
                 }),
                 "elements of 3 bytes, but copies only"));
}
