// Executes the opcodes, one group per function. They are defined in CPython's Lib/pickletools.py.
#include <bit>
#include <charconv>

#include "base/json_cursor.h"
#include "base/utf8.h"
#include "formats/pickle_machine.h"

namespace mtl {

namespace {

/// Decodes escape sequences in protocol 0 text. STRING uses the escapes of Python's repr(); UNICODE uses
/// raw-unicode-escape.
std::string unescape(std::string_view text, bool is_repr) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    const std::size_t digits = text[i] != '\\' ? 0 : next == 'u' ? 4 : next == 'U' ? 8 : is_repr && next == 'x' ? 2 : 0;
    std::uint32_t code = 0;
    if (digits > 0 && i + 2 + digits <= text.size() &&
        std::from_chars(&text[i + 2], &text[i + 2] + digits, code, 16).ptr == &text[i + 2] + digits) {
      if (digits == 2) {
        out += static_cast<char>(code);
      } else {
        append_utf8(out, code);
      }
      i += 1 + digits;
    } else if (is_repr && text[i] == '\\' && next != '\0') {
      out += next == 'n' ? '\n' : next == 't' ? '\t' : next == 'r' ? '\r' : next;
      ++i;
    } else if (is_repr || byte_of(text[i]) < 0x80) {
      out += text[i];
    } else {
      append_utf8(out, byte_of(text[i]));  // raw-unicode-escape is Latin-1
    }
  }
  return out;
}

}  // namespace

void PickleMachine::run_number(unsigned char opcode) {
  switch (opcode) {
    case 'N':
      return push(kNone);
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      return push(opcode == 0x88 ? kTrue : kFalse);
    case 'K':  // BININT1
      return push_scalar(PickleKind::integer, static_cast<std::int64_t>(take_unsigned(1)));
    case 'M':  // BININT2
      return push_scalar(PickleKind::integer, static_cast<std::int64_t>(take_unsigned(2)));
    case 'J':  // BININT
      return push_scalar(PickleKind::integer, static_cast<std::int32_t>(take_unsigned(4)));
    case 'I': {  // INT, and the booleans of protocol 0
      const std::string_view line = take_line();
      return line == "01" ? push(kTrue) : line == "00" ? push(kFalse) : push_decimal(line);
    }
    case 'L':  // LONG
      return push_decimal(take_line());
    case 0x8A:  // LONG1
      return push_long(take(take_unsigned(1)));
    case 0x8B:  // LONG4
      return push_long(take(take_unsigned(4)));
    case 'F': {  // FLOAT
      const std::optional<double> value = parse_float(take_line());
      if (!value) refuse_damaged("the line is not a number");
      push_scalar(PickleKind::real, std::bit_cast<std::int64_t>(*value));
      return;
    }
    case 'G': {  // BINFLOAT: big-endian
      return push_scalar(PickleKind::real, static_cast<std::int64_t>(__builtin_bswap64(take_unsigned(8))));
    }
    default:
      return run_text(opcode);
  }
}

void PickleMachine::run_text(unsigned char opcode) {
  switch (opcode) {
    case 'X':  // BINUNICODE
      return push_text(PickleKind::text, take(take_unsigned(4)), true);
    case 0x8C:  // SHORT_BINUNICODE
      return push_text(PickleKind::text, take(take_unsigned(1)), true);
    case 0x8D:  // BINUNICODE8
      return push_text(PickleKind::text, take(take_unsigned(8)), true);
    case 'U':  // SHORT_BINSTRING: Python 2's str
      return push_text(PickleKind::text, take(take_unsigned(1)), false);
    case 'T':  // BINSTRING
      return push_text(PickleKind::text, take(take_unsigned(4)), false);
    case 'C':  // SHORT_BINBYTES
      return push_text(PickleKind::bytes, take(take_unsigned(1)), false);
    case 'B':  // BINBYTES
      return push_text(PickleKind::bytes, take(take_unsigned(4)), false);
    case 0x8E:  // BINBYTES8
    case 0x96:  // BYTEARRAY8
      return push_text(PickleKind::bytes, take(take_unsigned(8)), false);
    case 'S': {  // STRING
      const std::string_view line = take_line();
      if (line.size() < 2 || line.front() != line.back() || (line.front() != '\'' && line.front() != '"'))
        refuse_damaged("the string has no quotes");
      pickle_.decoded_.push_back(unescape(line.substr(1, line.size() - 2), true));
      return push_text(PickleKind::text, pickle_.decoded_.back(), false);
    }
    case 'V':  // UNICODE
      pickle_.decoded_.push_back(unescape(take_line(), false));
      return push_text(PickleKind::text, pickle_.decoded_.back(), true);
    default:
      return run_container(opcode);
  }
}

void PickleMachine::run_container(unsigned char opcode) {
  switch (opcode) {
    case ')':  // EMPTY_TUPLE
      return push(kEmptyTuple);
    case ']':  // EMPTY_LIST
      return push_items(PickleKind::list, {});
    case '}':  // EMPTY_DICT
      return push_items(PickleKind::dict, {});
    case 0x8F:  // EMPTY_SET
      return push_items(PickleKind::set, {});
    case 't':  // TUPLE
      return push_items(PickleKind::tuple, pop_to_mark());
    case 0x85:  // TUPLE1, TUPLE2, TUPLE3
    case 0x86:
    case 0x87:
      return push_tuple(opcode - 0x84u);
    case 'l':  // LIST
      return push_items(PickleKind::list, pop_to_mark());
    case 'd':  // DICT
      return push_items(PickleKind::dict, pop_to_mark());
    case 0x91:  // FROZENSET
      return push_items(PickleKind::set, pop_to_mark());
    case 'a': {  // APPEND
      const Id item = pop();
      return add_items(top(), {item}, PickleKind::list);
    }
    case 's': {  // SETITEM
      const Id value = pop(), key = pop();
      return add_items(top(), {key, value}, PickleKind::dict);
    }
    case 'e':     // APPENDS
    case 'u':     // SETITEMS
    case 0x90: {  // ADDITEMS
      const std::vector<Id> items = pop_to_mark();
      return add_items(top(), items,
                       opcode == 'e'   ? PickleKind::list
                       : opcode == 'u' ? PickleKind::dict
                                       : PickleKind::set);
    }
    default:
      return run_stack(opcode);
  }
}

void PickleMachine::run_stack(unsigned char opcode) {
  switch (opcode) {
    case '(':  // MARK
      if (marks_.size() == most_values_) refuse_damaged("the stream has more than ", most_values_, " marks");
      marks_.push_back(stack_.size());
      return;
    case '0':  // POP: removes a value or a mark
      if (!marks_.empty() && marks_.back() == stack_.size()) return marks_.pop_back();
      pop();
      return;
    case '1':  // POP_MARK
      pop_to_mark();
      return;
    case '2':  // DUP
      return push(top());
    case 'q':  // BINPUT
      return remember(take_unsigned(1));
    case 'r':  // LONG_BINPUT
      return remember(take_unsigned(4));
    case 0x94:  // MEMOIZE
      return remember(memo_size_);
    case 'h':  // BINGET
      return recall(take_unsigned(1));
    case 'j':  // LONG_BINGET
      return recall(take_unsigned(4));
    case 'p':    // PUT
    case 'g': {  // GET
      const std::optional<std::int64_t> index = parse_int(take_line());
      if (!index || *index < 0) refuse_damaged("the line is not a memo index");
      opcode == 'p' ? remember(*index) : recall(*index);
      return;
    }
    case 0x80: {  // PROTO
      const std::uint64_t protocol = take_unsigned(1);
      if (protocol > 5)
        refuse("the stream has pickle protocol ", protocol,
               ", but mtl reads only 0 to 5; save the file again with protocol 2, torch.save's default");
      return;
    }
    case 0x95: {  // FRAME: the size only helps buffered readers
      const std::uint64_t size = take_unsigned(8);
      if (size > stream_.size() - at_)
        refuse_damaged("the frame has ", size, " bytes, but only ", stream_.size() - at_, " follow");
      return;
    }
    default:
      return run_object(opcode);
  }
}

void PickleMachine::run_object(unsigned char opcode) {
  switch (opcode) {
    case 'c': {  // GLOBAL
      const std::string_view module = take_line(), name = take_line();
      return push_global(module, name);
    }
    case 0x93: {  // STACK_GLOBAL
      const Id name = pop(), module = pop();
      if (!pickle_[name].is(PickleKind::text) || !pickle_[module].is(PickleKind::text))
        refuse_damaged("the name of a global is not a text");
      return push_global(pickle_[module].as_text(), pickle_[name].as_text());
    }
    case 'R':     // REDUCE
    case 0x81: {  // NEWOBJ
      const Id arguments = pop(), callee = pop();
      return call(callee, arguments, opcode == 0x81);
    }
    case 0x92: {  // NEWOBJ_EX: with keyword arguments, which none of the supported types takes
      const Id keywords = pop(), arguments = pop(), callee = pop();
      if (!pickle_[keywords].is(PickleKind::dict) || pickle_[keywords].size() > 0)
        refuse_code("the stream calls ", pickle_[callee].describe(), " with keyword arguments");
      return call(callee, arguments, true);
    }
    case 'b':  // BUILD
      return build();
    case 'Q':  // BINPERSID
      return push_persistent(pop());
    case 'P':  // PERSID
      push_text(PickleKind::text, take_line(), false);
      return push_persistent(pop());
    default:
      return refuse_opcode(opcode);
  }
}

void PickleMachine::refuse_opcode(unsigned char opcode) const {
  struct Known {
    unsigned char opcode;
    const char* name;
  };
  constexpr Known kRefused[] = {{'i', "INST"},  {'o', "OBJ"},          {0x82, "EXT1"},           {0x83, "EXT2"},
                                {0x84, "EXT4"}, {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"}};
  for (const Known& known : kRefused) {
    if (known.opcode == opcode) refuse_code("the stream uses the opcode ", known.name);
  }
  refuse_damaged("byte ", static_cast<int>(opcode), " is not an opcode");
}

}  // namespace mtl
