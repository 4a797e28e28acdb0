/* Functions for fikit's Lua in srun, sbatch and salloc, and what it leaves for this plugin. */
#ifndef FIKIT_LUA_H
#define FIKIT_LUA_H

#include <stdbool.h>

typedef struct lua_State lua_State;

/* take_back(options, name): makes an option of Slurm's as if nobody had given it. cli_filter/lua can only set options, and a
 * number that is set stays one: --mem beside a --mem-per-gpu that was taken for it would be refused as a contradiction.
 * options: the light userdata `_opt` of the table that Slurm hands to cli_filter.lua. */
int fikit_lua_take_back(lua_State *lua);

/* export(name, value): a variable for the step's tasks, in the releases whose srun exports what was asked for GPUs (since 23.02). */
int fikit_lua_export(lua_State *lua);

/* export_tasks(number): the one that every srun exports when it is told how many tasks a GPU has. */
int fikit_lua_export_tasks(lua_State *lua);

/* say_usual_memory(bytes): what earlier jobs of this name needed. Only the client can read it, only slurmctld uses it. */
int fikit_lua_say_usual_memory(lua_State *lua);

/* say_asked(text): what an srun was asked for, whose job asks for shards instead (fikit_asked.lua); "" for another. */
int fikit_lua_say_asked(lua_State *lua);

/* What was said last; NULL: nothing. */
const char *fikit_lua_usual_memory(void);
const char *fikit_lua_asked(void);

#endif
