/*
 * What fikit's Lua in the clients (lua/fikit_client.lua) cannot do itself. It loads these functions from this plugin, which
 * Slurm has loaded before, with package.loadlib().
 *
 * Nothing of Lua or libslurmfull is linked: their names are looked up in the program that called, and where one of them is
 * missing, a function answers false. lua_touserdata, lua_tolstring and lua_pushboolean are the same from Lua 5.1 to 5.4,
 * slurm_option_reset from Slurm 22.05 to 26.05.
 */
#include "fikit_lua.h"

#include <dlfcn.h>
#include <slurm/slurm_version.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_BYTES 24
#define ASKED_BYTES 512

static char usual[USUAL_BYTES];
static char asked[ASKED_BYTES];

const char *fikit_lua_usual_memory(void) { return usual[0] ? usual : NULL; }

const char *fikit_lua_asked(void) { return asked[0] ? asked : NULL; }

static const char *text_at(lua_State *lua, int index) {
  const char *(*to_text)(lua_State *, int, size_t *) = NULL;
  *(void **)&to_text = dlsym(RTLD_DEFAULT, "lua_tolstring");
  return to_text ? to_text(lua, index, NULL) : NULL;
}

static int answer(lua_State *lua, int yes) {
  void (*push)(lua_State *, int) = NULL;
  *(void **)&push = dlsym(RTLD_DEFAULT, "lua_pushboolean");
  if (!push)
    return 0;
  push(lua, yes);
  return 1;
}

int fikit_lua_take_back(lua_State *lua) {
  void *(*to_pointer)(lua_State *, int) = NULL;
  bool (*reset)(void *, const char *) = NULL;
  *(void **)&to_pointer = dlsym(RTLD_DEFAULT, "lua_touserdata");
  *(void **)&reset = dlsym(RTLD_DEFAULT, "slurm_option_reset");
  void *options = to_pointer ? to_pointer(lua, 1) : NULL;
  const char *name = text_at(lua, 2);
  return answer(lua, options && name && reset && reset(options, name));
}

int fikit_lua_export(lua_State *lua) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
  const char *name = text_at(lua, 1);
  const char *value = text_at(lua, 2);
  return answer(lua, name && value && setenv(name, value, 1) == 0);
#else
  return answer(lua, 0);
#endif
}

int fikit_lua_export_tasks(lua_State *lua) {
  const char *value = text_at(lua, 1);
  return answer(lua, value && setenv("SLURM_NTASKS_PER_TRES", value, 1) == 0);
}

static int keep(lua_State *lua, char *place, size_t size) {
  const char *text = text_at(lua, 1);
  const bool fits = text && strlen(text) < size;
  if (fits)
    memcpy(place, text, strlen(text) + 1);
  return answer(lua, fits);
}

int fikit_lua_say_usual_memory(lua_State *lua) { return keep(lua, usual, sizeof usual); }

int fikit_lua_say_asked(lua_State *lua) { return keep(lua, asked, sizeof asked); }
