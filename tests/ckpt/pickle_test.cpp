// Pickles read as data: values from every protocol, shared values without copies, and limits on depth, memory and
// names.
#include "ckpt/pickle.h"

#include <doctest/doctest.h>

#include "base/files.h"
#include "ckpt/torch_globals.h"
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
