#include "faults.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "../device_model/clock.hpp"
#include "../device_model/segment.hpp"
#include "../faults/rule.hpp"
#include "../faults/table.hpp"
#include "../replay/json.hpp"

namespace emu {
namespace {

std::vector<FaultTable> tables() {
  std::vector<FaultTable> found;
  for (const std::string& name : existing_fault_tables(set_name())) found.emplace_back(name, false);
  return found;
}

unsigned long number(const std::string& text, const char* what) {
  char* end = nullptr;
  const unsigned long value = strtoul(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || text[0] == '-')
    throw std::runtime_error("emuctl: \"" + text + "\" is no " + what + ", see `emuctl faults` and `emuctl stats`");
  return value;
}

void print(const FaultEntry& entry, const std::string& text, const char* format) {
  printf(format, entry.id, text.c_str(), static_cast<unsigned long long>(entry.counts->matches.load()),
         static_cast<unsigned long long>(entry.counts->strikes.load()));
}

}  // namespace

int inject_fault(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  parse_fault(text);
  std::vector<FaultTable> all = tables();
  // Nobody has used the set yet: its programs will find the table. Those of access = "all" make one themselves.
  if (all.empty()) all.emplace_back(fault_table_name(false, set_name()), false);
  for (FaultTable& table : all) printf("%u\n", table.add(text));
  return 0;
}

int list_faults(bool json) {
  if (json) printf("{\"faults\": [");
  const char* comma = "";
  bool any = false;
  for (const FaultTable& table : tables()) {
    for (const FaultEntry& entry : table.entries()) {
      if (json) {
        printf("%s\n  ", comma);
        print(entry, quoted(entry.text), "{\"id\": %u, \"rule\": %s, \"matches\": %llu, \"strikes\": %llu}");
      } else {
        print(entry, entry.text, "%4u  %-50s  matched %llu, struck %llu\n");
      }
      comma = ",";
      any = true;
    }
  }
  if (json) {
    printf("]}\n");
  } else if (!any) {
    printf("no injected faults\n");
  }
  return 0;
}

int clear_faults(const std::string& id) {
  const uint32_t wanted = id.empty() ? 0 : static_cast<uint32_t>(number(id, "fault"));
  int cleared = 0;
  for (FaultTable& table : tables()) cleared += table.clear(wanted);
  if (!id.empty() && cleared == 0) throw std::runtime_error("emuctl: there is no fault " + id + ", see `emuctl faults`");
  if (!id.empty()) return 0;
  for (const std::string& name : existing_segments(set_name())) {
    if (std::optional<Segment> segment = Segment::find(name)) Segment::Lock(*segment)->restore();
  }
  return 0;
}

int lose_devices(const std::string& index) {
  const int wanted = index.empty() ? -1 : static_cast<int>(number(index, "device"));
  int lost = 0;
  for (const std::string& name : existing_segments(set_name())) {
    std::optional<Segment> segment = Segment::find(name);
    if (!segment || (wanted >= 0 && segment->identity().index != wanted)) continue;
    Segment::Lock device(*segment);
    device->advance(RealClock().now_ns());
    device->lose();
    ++lost;
  }
  if (lost == 0) throw std::runtime_error("emuctl: there is no such emulated GPU in use, see `emuctl stats`");
  return 0;
}

void remove_fault_tables() {
  for (const std::string& name : existing_fault_tables(set_name())) shm_unlink(("/" + name).c_str());
}

}  // namespace emu
