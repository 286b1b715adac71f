// The command line, declared: a command lists its options with where their values go, and gets parsing, --help and
// error texts from the list.
//
// Engines are not of one mind about syntax, so all of these are read: --name VALUE, --name=VALUE, -n VALUE, -nVALUE,
// -ab for two switches, and as Go's flag package has it -name and -name=VALUE (go-runc says `-no-subreaper`). "--" ends
// the options.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace agentrun::cli {

// Where options may stand.
enum class Order {
  anywhere,       // also after the id: `create ID --bundle DIR`
  before_operand  // the first operand ends them: what follows is somebody else's command line
};

class OptionParser {
 public:
  // `name`: "exec"; in front of every error. `operands`: "ID COMMAND [ARGUMENT...]", for the usage line. `summary`: one
  // sentence.
  OptionParser(std::string name, std::string operands, std::string summary, Order order = Order::anywhere);

  // `names` is "bundle" or "bundle,b". `help` is one line without a final full stop; where it is empty the option is
  // accepted and not shown. All targets must outlive `parse`.
  OptionParser& flag(std::string_view names, bool& target, std::string help);  // also --name=true and --name=false
  OptionParser& text(std::string_view names, std::string argument, std::string& target, std::string help);
  OptionParser& list(std::string_view names, std::string argument, std::vector<std::string>& target, std::string help);
  OptionParser& number(std::string_view names, unsigned& target, std::string help);
  // `set` gets the value; its error is prefixed with command and option.
  OptionParser& value(std::string_view names, std::string argument, std::function<Result<void>(std::string_view)> set,
                      std::string help);
  // Accepted for an engine's sake, without effect here.
  OptionParser& ignored(std::string_view names, std::string argument = {});

  // How many operands are right: both inclusive.
  OptionParser& operands(std::size_t least, std::size_t most = kAnyNumber);

  struct Parsed {
    std::vector<std::string> operands;
    bool help = false;         // --help or -h was there: print help() and stop; nothing else was checked
    std::size_t consumed = 0;  // arguments that were read, the options and "--"; before_operand only
  };
  // Errors name the command and the option: "create --bundle: requires an argument".
  Result<Parsed> parse(const std::vector<std::string>& arguments) const;

  // What --help prints.
  std::string help() const;

  static constexpr std::size_t kAnyNumber = static_cast<std::size_t>(-1);

 private:
  struct Option {
    std::string name;
    char letter = 0;
    std::string argument;  // of the help text; empty: a switch
    std::string help;
    std::function<Result<void>(std::string_view)> set;  // a switch gets "true" or "false"
  };
  struct Cursor;

  OptionParser& add(std::string_view names, std::string argument, std::function<Result<void>(std::string_view)> set,
                    std::string help);
  const Option* find(std::string_view name) const;
  const Option* find(char letter) const;
  Result<void> read_long(Cursor& cursor, std::string_view body) const;
  Result<void> read_letters(Cursor& cursor, std::string_view letters) const;
  Result<void> apply(const Option& option, std::string_view shown, std::string_view value) const;
  Error unknown(std::string_view shown, std::string_view name) const;
  Result<void> check_operands(const std::vector<std::string>& operands) const;

  std::string name_, operands_text_, summary_;
  Order order_;
  std::vector<Option> options_;
  std::size_t least_ = 0, most_ = kAnyNumber;
};

// The nearest of `candidates` for "did you mean"; empty where none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace agentrun::cli
