#include "fikit_site.h"

#include <fcntl.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "values/fikit_priority.h"

#define DEFAULT_PATH "/etc/fikit/fikit.toml"
#define MOST_BYTES 65536
#define LINE_BYTES 256
#define WORD_BYTES 16

static const char blanks[] = " \t\r";

static const char *past_blanks(const char *text) { return text + strspn(text, blanks); }

static bool ends(const char *text) {
  text = past_blanks(text);
  return *text == '\0' || *text == '#';
}

/* "[name]", maybe with blanks and a comment. */
static bool is_header(const char *line, const char *name) {
  const size_t length = strlen(name);
  const char *text = past_blanks(line + 1);
  if (strncmp(text, name, length) != 0)
    return false;
  text = past_blanks(text + length);
  return *text == ']' && ends(text + 1);
}

/* `default_priority = "low"`, 'low' or a digit. */
static bool parse_line(const char *line, int *priority) {
  static const char key[] = "default_priority";
  char word[WORD_BYTES];
  if (strncmp(line, key, sizeof key - 1) != 0)
    return false;
  const char *value = past_blanks(line + sizeof key - 1);
  if (*value != '=')
    return false;
  value = past_blanks(value + 1);
  const bool quoted = *value == '"' || *value == '\'';
  const char quote[] = {*value, '\0'};
  value += quoted;
  const size_t length = strcspn(value, quoted ? quote : " \t\r#");
  if (length == 0 || length >= sizeof word || (quoted && value[length] != *quote) || !ends(value + length + quoted))
    return false;
  memcpy(word, value, length);
  word[length] = '\0';
  return fikit_parse_priority(word, priority);
}

bool fikit_toml_priority(const char *text, int *priority) {
  bool inside = false;
  while (*text) {
    const size_t length = strcspn(text, "\n");
    if (length < LINE_BYTES) {
      char line[LINE_BYTES];
      snprintf(line, sizeof line, "%.*s", (int)length, text);
      const char *begin = past_blanks(line);
      if (*begin == '[')
        inside = is_header(begin, "slurm");
      else if (inside && parse_line(begin, priority))
        return true;
    }
    text += length;
    text += *text == '\n';
  }
  return false;
}

static void read_priority(const char *path, int *priority) {
  static char text[MOST_BYTES + 2];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  const ssize_t bytes = read(fd, text, sizeof text - 1);
  close(fd);
  if (bytes < 0 || bytes > MOST_BYTES)
    return;
  text[bytes] = '\0';
  fikit_toml_priority(text, priority);
}

int fikit_site_priority(const struct fikit_config *config) {
  int priority = FIKIT_PRIORITY_NORMAL;
  read_priority(config->fikit_toml ? config->fikit_toml : DEFAULT_PATH, &priority);
  if (config->default_priority < 0 || config->default_priority == priority)
    return priority;
  slurm_error("fikit: plugstack.conf says default_priority=%d and fikit.toml %d: the lower one counts; take it out of "
              "plugstack.conf", config->default_priority, priority);
  return config->default_priority > priority ? config->default_priority : priority;
}
