-- Opens $FABRIC in a real Neovim, which starts the server as docs/editors.md says, and writes what the editor got to $OUT.
local function wait(what, ready)
  if not vim.wait(20000, ready, 20) then
    error("no " .. what .. " within 20 s")
  end
end

local function ask(method, line, character)
  local params = { textDocument = vim.lsp.util.make_text_document_params(), position = { line = line, character = character } }
  local answers = assert(vim.lsp.buf_request_sync(0, method, params, 20000))
  for _, answer in pairs(answers) do
    return answer.result
  end
end

local function main()
  vim.cmd("edit " .. vim.env.FABRIC)
  local got = {}

  -- The buffer is changed and not saved; the mistake stands behind Chinese on its line.
  vim.api.nvim_buf_set_lines(0, 0, 0, false, { "# 两台服务器", "locals {", '  nic = "机房 😀 ${host.a.nic.rail7.netdev}"', "}" })
  wait("diagnostics", function() return #vim.diagnostic.get(0) > 0 end)
  for _, d in ipairs(vim.diagnostic.get(0)) do
    local line = vim.api.nvim_buf_get_lines(0, d.lnum, d.lnum + 1, false)[1]
    table.insert(got, "diagnostic " .. line:sub(d.col + 1, d.end_col) .. ": " .. d.message)
  end

  for _, item in ipairs(vim.lsp.util.extract_completion_items(ask("textDocument/completion", 2, 29))) do
    table.insert(got, "completion " .. item.label)
  end
  table.insert(got, "hover " .. ask("textDocument/hover", 2, 23).contents.value)

  vim.api.nvim_buf_set_lines(0, 2, 3, false, { '      nic = "机房 😀 ${host.a.nic.rail1.netdev}"' })
  wait("clean file", function() return #vim.diagnostic.get(0) == 0 end)
  if vim.lsp.buf.format then
    vim.lsp.buf.format({ timeout_ms = 20000 })
  else
    vim.lsp.buf.formatting_sync(nil, 20000)
  end
  table.insert(got, "formatted " .. vim.api.nvim_buf_get_lines(0, 2, 3, false)[1])

  vim.api.nvim_win_set_cursor(0, { 3, #'  nic = "机房 😀 ${host.a.nic.ra' })
  vim.lsp.buf.definition()
  wait("definition", function() return vim.api.nvim_win_get_cursor(0)[1] ~= 3 end)
  table.insert(got, "definition " .. vim.api.nvim_get_current_line())

  -- What a person types: a quick fix for the first problem, a rename of what the cursor is on, and the outline.
  vim.api.nvim_buf_set_lines(0, 2, 3, false, { '  nic = "机房 😀 ${host.a.nic.rial1.netdev}"' })
  wait("problem", function() return #vim.diagnostic.get(0) > 0 end)
  vim.ui.select = function(items, _, choose) choose(items[1], 1) end
  vim.api.nvim_win_set_cursor(0, { 3, #'  nic = "机房 😀 ${host.a.nic.ri' })
  vim.lsp.buf.code_action()
  wait("quick fix", function() return vim.api.nvim_buf_get_lines(0, 2, 3, false)[1]:find("rail1") end)
  table.insert(got, "fixed " .. vim.api.nvim_buf_get_lines(0, 2, 3, false)[1])
  wait("clean file", function() return #vim.diagnostic.get(0) == 0 end)

  vim.api.nvim_win_set_cursor(0, { 3, #'  nic = "机房 😀 ${host.' })
  vim.lsp.buf.rename("gpu0")
  wait("rename", function() return vim.api.nvim_buf_get_lines(0, 2, 3, false)[1]:find("gpu0") end)
  for _, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
    if line:find("gpu0") then
      table.insert(got, "renamed " .. line)
    end
  end
  for _, symbol in ipairs(ask("textDocument/documentSymbol", 0, 0)) do
    table.insert(got, "symbol " .. symbol.name)
  end
  vim.fn.writefile(vim.split(table.concat(got, "\n"), "\n"), vim.env.OUT)
end

local ok, fault = pcall(main)
if not ok then
  io.stderr:write(tostring(fault) .. "\n")
  vim.cmd("cquit")
end
vim.cmd("qall!")
