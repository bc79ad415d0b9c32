return require('potluck.level')('meltingpot.lua.levels.clean_up.components')
