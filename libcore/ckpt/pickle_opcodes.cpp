// Executes the opcodes, one group per function. They are defined in CPython's Lib/pickletools.py.
#include <bit>
#include <charconv>

#include "base/json_cursor.h"
#include "base/utf8.h"
#include "ckpt/pickle_machine.h"

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

bool PickleMachine::run_number(unsigned char opcode) {
  switch (opcode) {
    case 'N':
      push(kNone);
      return true;
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      push(opcode == 0x88 ? kTrue : kFalse);
      return true;
    case 'K':  // BININT1
      push_scalar(PickleKind::integer, static_cast<std::int64_t>(take_unsigned(1)));
      return true;
    case 'M':  // BININT2
      push_scalar(PickleKind::integer, static_cast<std::int64_t>(take_unsigned(2)));
      return true;
    case 'J':  // BININT
      push_scalar(PickleKind::integer, static_cast<std::int32_t>(take_unsigned(4)));
      return true;
    case 'I': {  // INT, and the booleans of protocol 0
      const std::string_view line = take_line();
      line == "01" ? push(kTrue) : line == "00" ? push(kFalse) : push_decimal(line);
      return true;
    }
    case 'L':  // LONG
      push_decimal(take_line());
      return true;
    case 0x8A:  // LONG1
      push_long(take(take_unsigned(1)));
      return true;
    case 0x8B:  // LONG4
      push_long(take(take_unsigned(4)));
      return true;
    case 'F': {  // FLOAT
      const std::optional<double> value = parse_float(take_line());
      if (!value) refuse_damaged("the line is not a number");
      push_scalar(PickleKind::real, std::bit_cast<std::int64_t>(*value));
      return true;
    }
    case 'G': {  // BINFLOAT: big-endian
      push_scalar(PickleKind::real, static_cast<std::int64_t>(__builtin_bswap64(take_unsigned(8))));
      return true;
    }
    default:
      return false;
  }
}

bool PickleMachine::run_text(unsigned char opcode) {
  switch (opcode) {
    case 'X':  // BINUNICODE
      push_text(PickleKind::text, take(take_unsigned(4)), true);
      return true;
    case 0x8C:  // SHORT_BINUNICODE
      push_text(PickleKind::text, take(take_unsigned(1)), true);
      return true;
    case 0x8D:  // BINUNICODE8
      push_text(PickleKind::text, take(take_unsigned(8)), true);
      return true;
    case 'U':  // SHORT_BINSTRING: Python 2's str
      push_text(PickleKind::text, take(take_unsigned(1)), false);
      return true;
    case 'T':  // BINSTRING
      push_text(PickleKind::text, take(take_unsigned(4)), false);
      return true;
    case 'C':  // SHORT_BINBYTES
      push_text(PickleKind::bytes, take(take_unsigned(1)), false);
      return true;
    case 'B':  // BINBYTES
      push_text(PickleKind::bytes, take(take_unsigned(4)), false);
      return true;
    case 0x8E:  // BINBYTES8
    case 0x96:  // BYTEARRAY8
      push_text(PickleKind::bytes, take(take_unsigned(8)), false);
      return true;
    case 'S': {  // STRING
      const std::string_view line = take_line();
      if (line.size() < 2 || line.front() != line.back() || (line.front() != '\'' && line.front() != '"'))
        refuse_damaged("the string has no quotes");
      pickle_.decoded_.push_back(unescape(line.substr(1, line.size() - 2), true));
      push_text(PickleKind::text, pickle_.decoded_.back(), false);
      return true;
    }
    case 'V':  // UNICODE
      pickle_.decoded_.push_back(unescape(take_line(), false));
      push_text(PickleKind::text, pickle_.decoded_.back(), true);
      return true;
    default:
      return false;
  }
}

bool PickleMachine::run_container(unsigned char opcode) {
  switch (opcode) {
    case ')':  // EMPTY_TUPLE
      push(kEmptyTuple);
      return true;
    case ']':  // EMPTY_LIST
      push_items(PickleKind::list, {});
      return true;
    case '}':  // EMPTY_DICT
      push_items(PickleKind::dict, {});
      return true;
    case 0x8F:  // EMPTY_SET
      push_items(PickleKind::set, {});
      return true;
    case 't':  // TUPLE
      push_items(PickleKind::tuple, pop_to_mark());
      return true;
    case 0x85:  // TUPLE1, TUPLE2, TUPLE3
    case 0x86:
    case 0x87:
      push_tuple(opcode - 0x84u);
      return true;
    case 'l':  // LIST
      push_items(PickleKind::list, pop_to_mark());
      return true;
    case 'd':  // DICT
      push_items(PickleKind::dict, pop_to_mark());
      return true;
    case 0x91:  // FROZENSET
      push_items(PickleKind::set, pop_to_mark());
      return true;
    case 'a': {  // APPEND
      const Id item = pop();
      add_items(top(), {item}, PickleKind::list);
      return true;
    }
    case 's': {  // SETITEM
      const Id value = pop(), key = pop();
      add_items(top(), {key, value}, PickleKind::dict);
      return true;
    }
    case 'e':     // APPENDS
    case 'u':     // SETITEMS
    case 0x90: {  // ADDITEMS
      const std::vector<Id> items = pop_to_mark();
      add_items(top(), items, opcode == 'e' ? PickleKind::list : opcode == 'u' ? PickleKind::dict : PickleKind::set);
      return true;
    }
    default:
      return false;
  }
}

bool PickleMachine::run_stack(unsigned char opcode) {
  switch (opcode) {
    case '(':  // MARK
      if (marks_.size() == kMaxPickleValues) refuse_damaged("the stream has more than ", kMaxPickleValues, " marks");
      marks_.push_back(stack_.size());
      return true;
    case '0':  // POP: removes a value or a mark
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
      } else {
        pop();
      }
      return true;
    case '1':  // POP_MARK
      pop_to_mark();
      return true;
    case '2':  // DUP
      push(top());
      return true;
    case 'q':  // BINPUT
      remember(take_unsigned(1));
      return true;
    case 'r':  // LONG_BINPUT
      remember(take_unsigned(4));
      return true;
    case 0x94:  // MEMOIZE
      remember(memo_size_);
      return true;
    case 'h':  // BINGET
      recall(take_unsigned(1));
      return true;
    case 'j':  // LONG_BINGET
      recall(take_unsigned(4));
      return true;
    case 'p':    // PUT
    case 'g': {  // GET
      const std::optional<std::int64_t> index = parse_int(take_line());
      if (!index || *index < 0) refuse_damaged("the line is not a memo index");
      opcode == 'p' ? remember(*index) : recall(*index);
      return true;
    }
    case 0x80: {  // PROTO
      const std::uint64_t protocol = take_unsigned(1);
      if (protocol > 5)
        refuse("the stream has pickle protocol ", protocol,
               ", but mtl reads only 0 to 5; save the file again with protocol 2, torch.save's default");
      return true;
    }
    case 0x95: {  // FRAME: the size only helps buffered readers
      const std::uint64_t size = take_unsigned(8);
      if (size > stream_.size() - at_)
        refuse_damaged("the frame has ", size, " bytes, but only ", stream_.size() - at_, " follow");
      return true;
    }
    default:
      return false;
  }
}

bool PickleMachine::run_object(unsigned char opcode) {
  switch (opcode) {
    case 'c': {  // GLOBAL
      const std::string_view module = take_line(), name = take_line();
      push_global(module, name);
      return true;
    }
    case 0x93: {  // STACK_GLOBAL
      const Id name = pop(), module = pop();
      if (!pickle_[name].is(PickleKind::text) || !pickle_[module].is(PickleKind::text))
        refuse_damaged("the name of a global is not a text");
      push_global(pickle_[module].as_text(), pickle_[name].as_text());
      return true;
    }
    case 'R':     // REDUCE
    case 0x81: {  // NEWOBJ
      const Id arguments = pop(), callee = pop();
      call(callee, arguments, opcode == 0x81);
      return true;
    }
    case 0x92: {  // NEWOBJ_EX: with keyword arguments, which none of the supported types takes
      const Id keywords = pop(), arguments = pop(), callee = pop();
      if (!pickle_[keywords].is(PickleKind::dict) || pickle_[keywords].size() > 0)
        refuse_code("the stream calls ", pickle_[callee].describe(), " with keyword arguments");
      call(callee, arguments, true);
      return true;
    }
    case 'b':  // BUILD
      build();
      return true;
    case 'Q':  // BINPERSID
      push_persistent(pop());
      return true;
    case 'P':  // PERSID
      push_text(PickleKind::text, take_line(), false);
      push_persistent(pop());
      return true;
    default:
      return false;
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
