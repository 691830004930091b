fabricform plan 3 12ab
{}
