// The examples of a manual page: each display block, with braces around it where it shows only a part of an object.
#pragma once

#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace agentrun::policy::manual {

inline std::vector<std::string> examples(const std::string& page) {
  std::ifstream file(page);
  std::vector<std::string> found;
  std::string line, example;
  bool literal = false;
  while (std::getline(file, line)) {
    if (line == ".Ed" && literal) {
      if (!example.starts_with('{')) example = "{" + example + "}";
      found.push_back(std::exchange(example, {}));
      literal = false;
    } else if (literal) {
      example += line + "\n";
    }
    if (line.starts_with(".Bd -literal")) literal = true;
  }
  return found;
}

}  // namespace agentrun::policy::manual
