// Pickles read as data: values from every protocol, shared values without copies, and limits on depth, memory and
// names.
#include "formats/pickle.h"

#include <doctest/doctest.h>

#include "base/files.h"
#include "formats/torch_globals.h"
#include "pickle_text.h"
#include "tests/error_of.h"

using namespace mtl;
using namespace mtl::test;
using namespace std::string_literals;

namespace {

std::string pickle_refusal(const std::string& stream) {
  return error_of([&] { Pickle pickle(stream, torch_global_use); }, Exit::bad_data);
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

/// Returns the value of a stream as text, or the error.
std::string pickle_outcome(const std::string& stream) {
  try {
    return pickle_value_text(Pickle(stream, torch_global_use).root());
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("pickle: one object in four protocols has the same values") {
  for (int protocol : {0, 1, 2, 5}) {
    CAPTURE(protocol);
    const std::string stream = read_file(cat("fuzz/corpus/pickle/python_protocol_", protocol));
    const Pickle pickle(stream, torch_global_use);
    const PickleValue a = *pickle.root().find("a"), b = *pickle.root().find("b");
    CHECK(pickle.length() == stream.size());
    REQUIRE(a.size() == 8);
    CHECK(a.at(0).as_int() == 1);
    CHECK(a.at(1).as_int() == -5);
    CHECK(a.at(2).as_int() == std::int64_t{1} << 40);
    CHECK(a.at(3).is(PickleKind::big_integer));
    CHECK(a.at(4).is(PickleKind::big_integer));
    CHECK(a.at(5).as_number() == 1.5);
    CHECK(a.at(6).as_bool());
    CHECK(a.at(7).is(PickleKind::none));
    REQUIRE(b.size() == 4);
    CHECK(b.at(0).as_text() == "x\n\xC3\xA9\xF0\x9F\x98\x80");
    CHECK(pickle.root().find("c")->find("k")->is(PickleKind::list));
    CHECK(!pickle.root().find("d"));
    CHECK(contains(error_of([&] { a.at(5).as_int(); }, Exit::bad_data), "a real number, not an integer"));
  }
}

TEST_CASE("pickle: enumerations in Megatron-LM's arguments are values without effect") {
  for (const char* global :
       {"csignal\nSignals\n", "cmegatron.core.enums\nModelType\n", "cmegatron.core.transformer.enums\nAttnBackend\n",
        "cmegatron.core.transformer.enums\nInferenceCudaGraphScope\n"}) {
    const std::string stream = cat(global, "(I15\ntR.");
    const Pickle pickle(stream, torch_global_use);
    CAPTURE(global);
    CHECK(pickle.root().is(PickleKind::object));
    CHECK(pickle.root().arguments().at(0).as_int() == 15);
  }
  CHECK(contains(pickle_refusal("csignal\nraise_signal\n(I9\ntR."), "'signal.raise_signal'"));
}

TEST_CASE("pickle: DeepSpeed's classes are values without effect, and its functions are refused") {
  for (const char* global :
       {"cdeepspeed.runtime.fp16.loss_scaler\nDynamicLossScaler\n", "cdeepspeed.runtime.zero.config\nZeroStageEnum\n",
        "cdeepspeed.utils.tensor_fragment\nfragment_address\n"}) {
    const std::string stream = cat(global, "(I1\ntR.");
    const Pickle pickle(stream, torch_global_use);
    CHECK(pickle.root().is(PickleKind::object));
  }
  CHECK(contains(pickle_refusal("cdeepspeed.utils.tensor_fragment\nmap_to_flat_opt_states\n(I1\ntR."), "map_to_flat"));
  CHECK(contains(pickle_refusal("cdeepspeedx.runtime\nScaler\n(I1\ntR."), "deepspeedx"));
}

TEST_CASE("pickle: shared values stay shared") {
  // l0 = []; l1 = [l0, l0]; l2 = [l1, l1]; ...: 2^200 paths, 201 lists.
  std::string stream = "\x80\2]q\0"s;
  for (int i = 0; i < 200; ++i) {
    const std::string get = "h"s + static_cast<char>(i), put = "q"s + static_cast<char>(i + 1);
    stream += "](" + get + get + "e" + put;
  }
  const Pickle pickle(stream + ".", torch_global_use);
  CHECK(pickle.count() < 300);
  CHECK(pickle.root().at(0).number() == pickle.root().at(1).number());
}

TEST_CASE("pickle: refuses unsafe and malformed streams with the reason") {
  CHECK(contains(pickle_refusal(""), "STOP"));
  CHECK(contains(pickle_refusal("\x80\6."s), "protocol 6"));
  CHECK(contains(pickle_refusal("\xff."s), "byte 255 is not an opcode"));
  CHECK(contains(pickle_refusal("(i"), "INST"));
  CHECK(contains(pickle_refusal("cos\nsystem\n."), "'os.system'"));
  CHECK(contains(pickle_refusal("cmegatron.x\nlower\n."), "megatron.x.lower"));
  CHECK(contains(pickle_refusal("ctorch\nfloat32\n)R."), "calls torch.float32"));
  CHECK(contains(pickle_refusal("](]a."), "stack is empty"));
  CHECK(contains(pickle_refusal("N)R."), "calls None"));
  CHECK(contains(pickle_refusal("}}b."), "sets the state of a dict"));
  CHECK(contains(pickle_refusal("X\2\0\0\0\xff\xff."s), "not UTF-8"));
  CHECK(contains(pickle_refusal("(Nd."), "a key without a value"));
  CHECK(contains(pickle_refusal(repeated("]", 2000) + repeated("a", 1999) + "."), "nested more than"));
  CHECK(contains(pickle_refusal(repeated("N", 600) + repeated("\x85", 600) + "."), "nested more than"));
  CHECK(contains(pickle_refusal(repeated("]", 3'000'000)), "more than 2097152 values"));
  CHECK(contains(pickle_refusal("N" + repeated("2", 3'000'000)), "the stack has more than"));
  CHECK(contains(pickle_refusal("Nr\xff\xff\xff\x7f."s), "memo index"));
  CHECK(contains(pickle_refusal("N\x8b\xff\xff\xff\xff."s), "4294967295 bytes"));
  CHECK(pickle_refusal("cmegatron.model.enums\nLayerType\nK\1\x85R."s) == "");
}

TEST_CASE("pickle: calls on shared items cannot multiply them") {
  // A list with 100 pairs, then OrderedDict(list) repeatedly, using 4 bytes per call.
  std::string stream = "\x80\2ccollections\nOrderedDict\nq\0](("s + "K\1K\2t" + repeated("(K\1K\2t"s, 99) + "eq\1"s;
  stream += repeated("h\0h\1\x85R0"s, 1000);
  CHECK(contains(pickle_refusal(stream + "."), "copy more items"));
}

TEST_CASE("pickle: each opcode's value, or the reason why the stream is refused") {
  const std::string ordered = "ccollections\nOrderedDict\n(", space = "cargparse\nNamespace\n)\x81",
                    reconstruct = "ccopy_reg\n_reconstructor\n(cargparse\nNamespace\nc__builtin__\nobject\n";
  const std::pair<std::string, const char*> streams[] = {
      {"I00\n.", "False"},
      {"I01\n.", "True"},
      {"I7\n.", "7"},
      {"Ix\n.", "'x' is not a 64-bit integer"},
      {"L-7L\n.", "-7"},
      {"L123456789012345678L\n.", "123456789012345678"},
      {"L-123456789012345678L\n.", "-123456789012345678"},
      {"L1234567890123456789L\n.", "19 digits"},
      {"L-1234567890123456789L\n.", "20 digits"},
      {"L1234567890123456789x\n.", "is not a 64-bit integer"},
      {"L\n.", "'' is not a 64-bit integer"},
      {"F1.5\n.", "1.5"},
      {"Fx\n.", "the line is not a number"},
      {"S'a\\n\\t\\r\\\\\\x41\\''\n.", "'a\n\t\r\\A''"},
      {"S\"a\"\n.", "'a'"},
      {"S'\xc3\xa9'\n.", "'\xc3\xa9'"},
      {"S'a\"\n.", "the string has no quotes"},
      {"Saa\n.", "the string has no quotes"},
      {"S'\n.", "the string has no quotes"},
      {"Va\\u00e9\\U0001F600\\x41\\n\xe9\n.", "'a\xc3\xa9\xf0\x9f\x98\x80\\x41\\n\xc3\xa9'"},
      {"V\\u00e\n.", "'\\u00e'"},
      {"V\\u00xy\\\n.", "'\\u00xy\\'"},
      {"\x8a\0."s, "0"},
      {"\x8a\1\x7f.", "127"},
      {"\x8a\1\x80.", "-128"},
      {"\x8a\2\xff\0."s, "255"},
      {"\x8a\2\xff\xff.", "-1"},
      {"\x8a\x09\1\1\1\1\1\1\1\1\1.", "9 digits"},
      {"\x8a\3\1.", "the opcode needs 3 bytes, but only 2 follow"},
      {"N(0.", "None"},
      {"I7\nN0.", "7"},
      {"Np0\n0g0\n.", "None"},
      {"Np1\n.", "memo index 1 is too large"},
      {"Np0\ng1\n.", "memo index 1 was never stored"},
      {"I1\np2\n0I2\np1\n0g2\n.", "1"},
      {"Np-1\n.", "the line is not a memo index"},
      {"Npx\n.", "the line is not a memo index"},
      {"\x8c\5torch\x8c\7float32\x93.", "torch.float32"},
      {"K\1\x8c\7float32\x93.", "the name of a global is not a text"},
      {"\x8c\5torchK\1\x93.", "the name of a global is not a text"},
      {"ctorch\nSize\n)}\x92.", "torch.Size()None"},
      {"ctorch\nSize\n)}K\1K\2s\x92.", "calls torch.Size with keyword"},
      {"ctorch\nSize\n)N\x92.", "calls torch.Size with keyword"},
      {"ctorch\nSize\n]R.", "the arguments of torch.Size are a list instead of a tuple"},
      {"ctorch\nSize\nctorch\nfloat32\nR.", "the arguments of torch.Size are torch.float32 instead of a tuple"},
      {"ctorch._utils\n_rebuild_tensor_v2\n)\x81.", "the stream makes an instance of torch._utils._rebuild_tensor_v2"},
      {reconstruct + "NtR.", "argparse.Namespace()None"},
      {reconstruct + "tR.", "_reconstructor has 2 arguments instead of 3"},
      {space + "}K\1K\2sb.", "argparse.Namespace(){1: 2}"},
      {space + "}b}b.", "the stream sets the state of an instance of argparse.Namespace twice"},
      {"ctorch._utils\n_rebuild_tensor_v2\n)R}b.", "sets the state of an instance of torch._utils"},
      {"N}b.", "the stream sets the state of None"},
      {space + "Na.", "the opcode adds an item to an instance of argparse.Namespace"},
      {"]NNs.", "the opcode adds an item to a list"},
      {"}(Nu.", "the dict has a key without a value"},
      {ordered + "tR}b.", "{}"},
      {ordered + "}K\1K\2stR.", "{1: 2}"},
      {ordered + "](]K\1aK\2a(K\3K\4tetR.", "{1: 2, 3: 4}"},
      {ordered + "](K\1etR.", "a dict cannot be made from an integer that is not a pair"},
      {ordered + "](]K\1aetR.", "a dict cannot be made from a list that is not a pair"},
      {ordered + "](}K\1K\2setR.", "a dict cannot be made from a dict that is not a pair"},
      {ordered + "K\1tR.", "a dict cannot be made from an integer"},
      {"ccollections\ndefaultdict\n(NtR.", "{}"},
      {"ccollections\ndefaultdict\n(ctorch\nfloat32\n}K\1K\2stR.", "{1: 2}"},
      {"K\1Q.", "<1>"},
      {"N" + repeated("Q", 600) + ".", "values are nested more than"},
      {repeated(space, 600) + repeated("b", 599) + ".", "values are nested more than"},
      {repeated(ordered + "}K\1", 600) + "N" + repeated("stR", 600) + ".", "values are nested more than"},
      {repeated(ordered + "](K\1", 600) + "N" + repeated("tatR", 600) + ".", "values are nested more than"},
      {repeated("ctorch\nSize\n(", 600) + "N" + repeated("tR", 600) + ".", "values are nested more than"},
      {"C\1a.", "'a'"},
      {repeated("(", 3'000'000), "the stream has more than"},
  };
  for (const auto& [stream, expected] : streams) {
    CAPTURE(stream.substr(0, 80));
    const std::string found = pickle_outcome(stream);
    CAPTURE(found);
    CHECK((starts_with(found, "pickle, ") ? contains(found, expected) : found == expected));
  }
  const Pickle pickle("N.", torch_global_use);
  const auto refused = [&](const auto& read) { return error_of([&] { read(pickle.root()); }, Exit::bad_data); };
  CHECK(refused([](PickleValue v) { v.as_bool(); }) == "None, not a boolean");
  CHECK(refused([](PickleValue v) { v.as_int(); }) == "None, not an integer");
  CHECK(refused([](PickleValue v) { v.as_number(); }) == "None, not a number");
  CHECK(refused([](PickleValue v) { v.as_text(); }) == "None, not a text");
  CHECK(refused([](PickleValue v) { v.as_digits(); }) == "None, not a long integer");
  CHECK(refused([](PickleValue v) { v.persistent_id(); }) == "None, not a persistent reference");
  CHECK(pickle.root().global() == "");
}
