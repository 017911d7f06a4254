//! The pages against the programs: commands, options, keys and make targets that they name are there, figures that are quoted are those that
//! were measured. Each command, option and key has a trial that observes what it does.

mod commands;
mod figures;
mod pages;

use anyhow::Result;

use crate::case::{Case, NOTHING};

pub(crate) fn cases() -> Vec<Case> {
    let trial = |name, run: fn() -> Result<()>| Case::new(name, NOTHING, run);
    vec![
        trial("commands_and_options_of_the_pages_exist", commands::exist),
        trial("a_wrong_command_or_option_of_a_page_is_found", commands::mistakes_are_found),
        trial("keys_of_the_pages_exist", commands::keys_exist),
        trial("each_command_option_and_key_has_its_trial", commands::all_are_exercised),
        trial("figures_are_as_measured", figures::are_as_measured),
        trial("a_figure_that_was_not_measured_is_found", figures::mistakes_are_found),
        trial("make_targets_of_the_pages_exist", pages::targets_exist),
        trial("words_of_only_select_tests", pages::words_select_tests),
        trial("the_list_of_limits_names_what_there_is", pages::limits_name_what_there_is),
        trial("the_image_has_all_programs", pages::the_image_has_all_programs),
        trial("the_summary_of_the_book_lists_every_page", pages::lists_every_page),
        trial("each_page_begins_with_what_its_reader_can_do", pages::begin_with_their_use),
    ]
}
