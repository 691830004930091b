// Starts `fabricform lsp` and connects VS Code to it. All that editors offer is in that server.
"use strict";
const { window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const command = workspace.getConfiguration("fabricform").get("path");
  client = new LanguageClient("fabricform", "fabricform", { command, args: ["lsp"] }, { documentSelector: [{ language: "fabricform" }] });
  try {
    await client.start();
  } catch (e) {
    window.showErrorMessage(`Cannot start ${command}: ${e.message}. Install fabricform, or set fabricform.path.`);
  }
};

exports.deactivate = () => (client && client.isRunning() ? client.stop() : undefined);
