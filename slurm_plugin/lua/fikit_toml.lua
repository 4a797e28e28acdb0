-- TOML, as much of it as fikit.toml needs: slurmctld's Lua has no library for it.
--
--   toml.parse(text) -> table, or nil and a sentence that names the line
-- Not read, and said so: strings of several lines, characters by number (\u). Dates are kept as the text that they are.

local toml = {}

local DEEPEST = 8
local ESCAPES = { b = "\b", t = "\t", n = "\n", f = "\f", r = "\r", ['"'] = '"', ["\\"] = "\\" }

local Reader = {}
Reader.__index = Reader

-- Ends the parse; parse() catches it.
function Reader:fail(what)
  local _, breaks = self.text:sub(1, self.at - 1):gsub("\n", "")
  error({ sentence = ("line %d: %s"):format(breaks + 1, what) })
end

function Reader:take(pattern)
  local first, last, captured = self.text:find("^" .. pattern, self.at)
  if not first then return nil end
  self.at = last + 1
  return captured or self.text:sub(first, last)
end

function Reader:expect(pattern, what)
  return self:take(pattern) or self:fail(what .. " was expected")
end

function Reader:blank()
  self:take("[ \t]*")
end

-- Blanks, line ends and comments.
function Reader:space()
  repeat
    self:take("[ \t\r\n]*")
  until not self:take("#[^\n]*")
end

function Reader:line_end()
  self:blank()
  self:take("#[^\n]*")
  if self.at <= #self.text then self:expect("\r?\n", "the end of the line") end
end

function Reader:string()
  if self.text:find('^"""', self.at) or self.text:find("^'''", self.at) then
    self:fail("a string of several lines cannot be read here")
  end
  if self:take("'") then
    local text = self:take("([^'\n]*)'")
    return text or self:fail("a string has no end")
  end
  self:expect('"', "a string")
  local parts = {}
  repeat
    parts[#parts + 1] = self:take('[^"\\\n]+') or ""
    local escape = self:take("\\(.)")
    parts[#parts + 1] = not escape and "" or ESCAPES[escape] or self:fail("\\" .. escape .. " cannot be read here")
  until not escape
  self:expect('"', "the end of a string")
  return table.concat(parts)
end

function Reader:key()
  local path = {}
  repeat
    self:blank()
    local quoted = self.text:find("^[\"']", self.at)
    path[#path + 1] = quoted and self:string() or self:expect("[%w_-]+", "a key")
    self:blank()
  until not self:take("%.")
  return path
end

function Reader:array(depth)
  local list = {}
  self:space()
  while not self:take("%]") do
    list[#list + 1] = self:value(depth + 1)
    self:space()
    if not self:take(",") then
      self:expect("%]", "a comma or ]")
      break
    end
    self:space()
  end
  return list
end

function Reader:inline_table(depth)
  local table_ = {}
  self:blank()
  if self:take("}") then return table_ end
  repeat
    self:pair(table_, depth + 1)
    self:blank()
  until not self:take(",")
  self:expect("}", "a comma or }")
  return table_
end

function Reader:value(depth)
  if depth > DEEPEST then self:fail("this is nested too deeply") end
  if self.text:find("^[\"']", self.at) then return self:string() end
  if self:take("%[") then return self:array(depth) end
  if self:take("{") then return self:inline_table(depth) end
  local word = self:expect("[^%s,%]}#]+", "a value")
  if word == "true" or word == "false" then return word == "true" end
  local digits = word:match("^[+-]?%d[%d_]*$") or word:match("^[+-]?%d[%d_]*%.[%d_]+$")
  return digits and tonumber((digits:gsub("_", ""))) or word
end

-- The table at `path` below `root`, made where it is not there. The last entry of an array of tables stands for it.
function Reader:below(root, path, count)
  for i = 1, count do
    local next_ = root[path[i]]
    if next_ == nil then
      next_ = {}
      root[path[i]] = next_
    end
    if type(next_) ~= "table" then self:fail(path[i] .. " is no table") end
    root = #next_ > 0 and next_[#next_] or next_
    if type(root) ~= "table" then self:fail(path[i] .. " is no table") end
  end
  return root
end

function Reader:pair(into, depth)
  local path = self:key()
  self:expect("=", "=")
  self:blank()
  local owner, name = self:below(into, path, #path - 1), path[#path]
  if owner[name] ~= nil then self:fail(name .. " is there twice") end
  owner[name] = self:value(depth)
end

function Reader:header(root, headers)
  local many = self:take("%[") ~= nil
  local path = self:key()
  self:expect(many and "%]%]" or "%]", "]")
  if not many then
    local name = table.concat(path, "\0")
    if headers[name] then self:fail("[" .. table.concat(path, ".") .. "] is there twice") end
    headers[name] = true
    return self:below(root, path, #path)
  end
  local owner, name = self:below(root, path, #path - 1), path[#path]
  local list = owner[name] or {}
  if type(list) ~= "table" or (#list == 0 and next(list) ~= nil) then self:fail(name .. " is no array of tables") end
  owner[name] = list
  list[#list + 1] = {}
  return list[#list]
end

function Reader:document()
  local root, headers = {}, {}
  local into = root
  self:space()
  while self.at <= #self.text do
    if self:take("%[") then into = self:header(root, headers) else self:pair(into, 1) end
    self:line_end()
    self:space()
  end
  return root
end

function toml.parse(text)
  local reader = setmetatable({ text = text, at = 1 }, Reader)
  local done, result = pcall(reader.document, reader)
  if done then return result end
  return nil, type(result) == "table" and result.sentence or tostring(result)
end

return toml
