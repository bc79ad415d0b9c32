return require('potluck.level')('meltingpot.lua.levels.commons_harvest.components')
