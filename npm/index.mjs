// The same for `import`.

import binnacle from './index.js';

export const { ApiServer, findProgram } = binnacle;
