// Tells Interference what standard input says of a client and of lower ones, and prints for each lower work when it was over and for how
// long of it the client's stood there: launched NUMBER T LENGTH, done NUMBER T, missing NUMBER T, ran LAUNCHED FROM UNTIL LAST.
#include <iostream>
#include <string>
#include <vector>

#include "tracking/accounting/interference.hpp"

int main() {
  fikit::tracking::Interference stood;
  std::vector<fikit::tracking::Ran> run;
  std::uint64_t number = 0;
  std::int64_t t_ns = 0;
  std::int64_t length_ns = 0;
  for (std::string word; std::cin >> word;) {
    if (word == "ran") {
      fikit::tracking::Ran& ran = run.emplace_back();
      std::cin >> ran.launched_ns >> ran.from_ns >> ran.until_ns >> ran.last;
      if (!ran.last) continue;
      stood.beside(run, [](const auto& time) { std::cout << time.until_ns << ' ' << time.length_ns << '\n'; });
      run.clear();
      continue;
    }
    std::cin >> number >> t_ns;
    if (word == "launched" && std::cin >> length_ns) stood.launched(number, t_ns, length_ns);
    else if (word == "done") stood.done(number, t_ns);
    else if (word == "missing") stood.missing(number, t_ns);
    else return 1;
  }
}
