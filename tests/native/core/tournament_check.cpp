// Plays random changes and questions to Rows and Tournament and compares each answer with a scan. SEED CHANGES
#include <algorithm>
#include <cstdio>
#include <random>
#include <set>
#include <vector>

#include "policy/base/client_set.hpp"
#include "policy/base/tournament.hpp"
#include "random_check.hpp"

namespace {

using namespace fikit::policy;

template <class Order>
bool tournament(std::mt19937& dice, std::size_t size, int changes) {
  const auto upto = [&](std::size_t most) { return static_cast<std::size_t>(dice() % (most + 1)); };
  Tournament<Order, 29> tree; // no whole number of groups
  for (int time = 0; time < 2; ++time) { // the second one finds no trace of the first
    tree.clear(size);
    std::vector<std::int64_t> keys(size, Order::kNone);
    for (int change = 0; change < changes; ++change) {
      if (size > 0) {
        const std::size_t row = upto(size - 1);
        keys[row] = dice() % 4 == 0 ? Order::kNone : static_cast<std::int64_t>(dice() % 8);
        tree.set(row, keys[row]);
        if (tree.key(row) != keys[row]) return false;
      }
      const std::size_t end = upto(size);
      const std::size_t begin = upto(end);
      const auto best = [&](std::size_t from, std::size_t to) {
        std::int64_t found = Order::kNone;
        for (; from < to; ++from) found = Order::better(keys[from], found) ? keys[from] : found;
        return found;
      };
      if (tree.best() != best(0, size) || tree.best(begin, end) != best(begin, end)) return false;
      const std::int64_t least = best(begin, end);
      const auto place = std::find(keys.begin() + static_cast<long>(begin), keys.begin() + static_cast<long>(end), least);
      if (tree.best_row(begin, end) != (least == Order::kNone ? size : static_cast<std::size_t>(place - keys.begin()))) return false;
      const auto asked = static_cast<std::int64_t>(dice() % 9);
      std::size_t first = begin;
      while (first < size && Order::better(asked, keys[first])) ++first;
      if (tree.first(begin, asked) != first) return false;
    }
  }
  return true;
}

bool rows(std::mt19937& dice, int changes) {
  ClientSet rows;
  ClientSet others;
  std::set<std::size_t> in;
  for (int change = 0; change < changes; ++change) {
    const std::size_t row = dice() % 4 == 0 ? dice() % 2 * (kMaxClients - 1) : dice() % kMaxClients;
    const bool add = dice() % 3 == 0;
    rows.set(row, add);
    if (add) in.insert(row);
    else in.erase(row);
    others.set(dice() % kMaxClients, dice() % 2 == 0);
    if (rows.any() != !in.empty() || rows.has(row) != add) return false;
    if (rows.first() != (in.empty() ? kMaxClients : *in.begin())) return false;
    if (rows.last() != (in.empty() ? kMaxClients : *in.rbegin())) return false;
    const std::size_t from = dice() % (kMaxClients + 1);
    const auto next = in.lower_bound(from);
    if (rows.next(from) != (next == in.end() ? kMaxClients : *next)) return false;
    for (std::size_t each = 0; each < kMaxClients; ++each) {
      const bool here = in.contains(each);
      if (rows.before(from).has(each) != (here && each < from)) return false;
      if ((rows & others).has(each) != (here && others.has(each))) return false;
      if ((rows | others).has(each) != (here || others.has(each))) return false;
      if (rows.without(others).has(each) != (here && !others.has(each))) return false;
    }
  }
  return true;
}

bool tournaments(std::mt19937& dice, int changes) {
  for (std::size_t size = 0; size <= 29; ++size)
    if (!tournament<Earliest>(dice, size, changes) || !tournament<Latest>(dice, size, changes)) {
      std::printf("%zu rows: ", size);
      return false;
    }
  return true;
}

} // namespace

int main(int argc, char** argv) {
  return play(argc, argv, {{"a tournament answers otherwise than a scan", tournaments}, {"a set of rows answers otherwise than a list", rows}});
}
